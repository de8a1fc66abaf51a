import json
import time
import urllib.error
from datetime import UTC, datetime

import pytest

pytest.importorskip("torch", reason="torch is an extra")

from srifty.errors import InputError
from srifty.training import Ec2Notices, GcpNotices, Notice
from srifty.training.notices import NoticeWatch, source_of
from tests.training.metadata import Ec2, playing

NONE = (404, "")
TIME = "2026-11-30T12:00:00Z"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


def action(word="terminate", at=TIME):
    return 200, json.dumps({"action": word, "time": at})


def watched(source, until=lambda watch: watch.notice):
    """A watch that has asked until something holds."""
    watch = NoticeWatch(source, interval_s=0.001)
    watch.start()
    limit = time.monotonic() + 120
    while not until(watch) and time.monotonic() < limit:
        time.sleep(0.001)
    watch.stop()
    return watch


def test_a_token_that_ran_out_is_renewed(caplog):
    service = Ec2([NONE, NONE, NONE, action()], uses=2)
    with playing(service) as url:
        watch = watched(Ec2Notices(url))
    assert watch.notice == Notice(AT, "terminate")
    assert service.asked == ["token", 404, 404, 401, "token", 404, 200]
    assert "taken away" in caplog.text
    assert "nothing known" not in caplog.text


@pytest.mark.parametrize("word", ["terminate", "stop", "hibernate"])
def test_each_action_is_a_notice(word):
    with playing(Ec2([action(word)])) as url:
        assert Ec2Notices(url).ask() == Notice(AT, word)


@pytest.mark.parametrize("body", ["", "{", "[]", '"terminate"', "{}", '{"action": 3}', "<html>"])
def test_a_malformed_body_is_no_notice(body):
    with playing(Ec2([(200, body)])) as url, pytest.raises(ValueError, match=r"notice|Expecting"):
        Ec2Notices(url).ask()


@pytest.mark.parametrize(("word", "low", "high"), [("terminate", 100, 121), ("hibernate", -60, 1)])
def test_a_notice_without_a_time_is_heeded(word, low, high):
    with playing(Ec2([(200, json.dumps({"action": word}))])) as url:
        found = Ec2Notices(url).ask()
    assert low <= found.at - time.time() <= high


@pytest.mark.parametrize("trouble", [(403, ""), (503, ""), (200, "nonsense"), (500, "x" * 9999)])
def test_troubles_are_warned_about_once_and_survived(caplog, trouble):
    with playing(Ec2([trouble, trouble, trouble, NONE, trouble, action()])) as url:
        watch = watched(Ec2Notices(url))
    assert watch.notice == Notice(AT, "terminate")
    assert caplog.text.count("nothing known about notices") == 1


def test_refused_tokens_are_survived(caplog):
    asked = []

    def refuse(method, path, headers):
        asked.append(method)
        return 403, ""

    with playing(refuse) as url:
        watch = watched(Ec2Notices(url), until=lambda _: len(asked) > 3)
        with pytest.raises(urllib.error.HTTPError):
            Ec2Notices(url).ask()
    assert watch.notice is None
    assert set(asked) == {"PUT"}
    assert caplog.text.count("nothing known about notices") == 1


def test_a_service_that_is_not_there_is_survived(caplog):
    with playing(Ec2([NONE])) as url:
        pass
    watch = watched(Ec2Notices(url), until=lambda _: "nothing known" in caplog.text)
    assert watch.notice is None


def test_a_service_that_does_not_answer_is_survived(monkeypatch, caplog):
    monkeypatch.setattr("srifty.training.notices._TIMEOUT_S", 0.05)

    def sleep(method, path, headers):
        time.sleep(0.3)
        return 404, ""

    with playing(sleep) as url:
        watch = watched(Ec2Notices(url), until=lambda _: "nothing known" in caplog.text)
    assert watch.notice is None


def test_google_says_when_it_is_asked(caplog):
    replies = ["FALSE", "FALSE", "TRUE"]

    def reply(method, path, headers):
        assert (method, path) == ("GET", "/computeMetadata/v1/instance/preempted")
        assert headers["Metadata-Flavor"] == "Google"
        return 200, replies.pop(0)

    with playing(reply) as url:
        watch = watched(GcpNotices(url))
    assert watch.notice.action == "preempt"
    assert -60 < watch.notice.at - time.time() <= 30


def test_sources_are_named():
    assert isinstance(source_of("ec2"), Ec2Notices)
    assert isinstance(source_of("gcp=http://127.0.0.1:1"), GcpNotices)
    for text in ("azure", "ec2=file:///etc/passwd"):
        with pytest.raises(InputError, match="is no source of notices; write ec2 or gcp"):
            source_of(text)
