import time

import pytest

from srifty.cloud.local.metadata import MetadataService
from srifty.cloud.ray_backend.interruptions import interruption_unix_s
from tests.training.metadata import TOKEN, Ec2, playing


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


def test_a_token_that_runs_out_hides_no_notice():
    answers = [(404, ""), (404, ""), (200, '{"action": "stop", "time": "2030-01-01T00:00:00Z"}')]
    with playing(Ec2(answers, uses=1)) as url:
        told = [interruption_unix_s(f"ec2={url}") for _ in range(3)]
    assert told == [None, None, 1893456000.0]


def test_a_time_without_a_zone_is_utc():
    said = '{"action": "stop", "time": "2030-01-01T00:00:00"}'
    with playing(Ec2([(200, said)])) as url:
        assert interruption_unix_s(f"ec2={url}") == 1893456000.0


@pytest.mark.parametrize(("action", "at_most_s"), [("hibernate", 0.0), ("terminate", 120.0)])
def test_a_notice_without_a_time_is_one_all_the_same(action, at_most_s):
    before = time.time()
    with playing(Ec2([(200, f'{{"action": "{action}"}}')])) as url:
        told = interruption_unix_s(f"ec2={url}")
    assert before <= told <= time.time() + at_most_s


@pytest.mark.parametrize("reply", [(503, "busy"), (200, "no JSON"), (200, "[]"), (200, "{}")])
def test_what_makes_no_sense_is_no_notice(reply):
    with playing(Ec2([reply])) as url:
        assert interruption_unix_s(f"ec2={url}") is None


def test_a_refused_token_is_no_notice():
    def reply(method, path, headers):
        assert (method, path) == ("PUT", TOKEN)
        return 403, "hop limit"

    with playing(reply) as url:
        assert interruption_unix_s(f"ec2={url}") is None


def test_a_proxy_is_not_asked(service, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    service.notice_unix_s = float(round(time.time()) + 60)
    assert interruption_unix_s(service.source) == service.notice_unix_s
