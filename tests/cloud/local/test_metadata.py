from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import closing
from datetime import datetime

import pytest

from srifty.cloud.local.metadata import ACTION_PATH, TOKEN_PATH, MetadataService


@pytest.fixture
def service():
    with closing(MetadataService()) as made:
        yield made


def ask(service: MetadataService, path: str, token: str = "", method: str = "GET") -> str:
    url = service.source.removeprefix("ec2=") + path
    headers = {"X-aws-ec2-metadata-token": token} if token else {}
    request = urllib.request.Request(url, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return str(error.code)


def test_it_answers_as_the_metadata_service_of_ec2_does(service):
    assert ask(service, ACTION_PATH) == "401"
    token = ask(service, TOKEN_PATH, method="PUT")
    assert ask(service, ACTION_PATH, token) == "404"
    at = float(int(time.time()) + 120)
    service.notice_unix_s = at
    said = json.loads(ask(service, ACTION_PATH, token))
    assert said["action"] == "terminate"
    assert datetime.fromisoformat(said["time"]).timestamp() == at
    assert ask(service, "/latest/other", token) == "404"
