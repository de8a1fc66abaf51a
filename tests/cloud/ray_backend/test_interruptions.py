import time

import pytest

from srifty.cloud.local.metadata import MetadataService
from srifty.cloud.ray_backend.interruptions import interruption_unix_s


@pytest.fixture
def service():
    made = MetadataService()
    yield made
    made.close()


def test_nothing_is_planned(service):
    assert interruption_unix_s(service.source) is None


def test_the_end_is_told(service):
    end = float(round(time.time()) + 120)
    service.notice_unix_s = end
    assert interruption_unix_s(service.source) == end


@pytest.mark.parametrize("source", ["", "gcp", "ec2=http://127.0.0.1:1"])
def test_who_does_not_answer_says_nothing(source):
    assert interruption_unix_s(source) is None
