"""Notices that this VM is going to be taken away, as clouds give them to those who ask.

EC2 says so two minutes before, at an address that needs a token (IMDSv2); Google Cloud thirty
seconds before. Nobody asks unless told to.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from srifty.errors import InputError

EC2_URL = "http://169.254.169.254"
GCP_URL = "http://metadata.google.internal"

_TIMEOUT_S = 2.0
_MOST_BYTES = 1 << 16
_GCP_NOTICE_S = 30.0
_EC2_NOTICE_S = 120.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """That a VM is going to be taken away.

    Attributes:
        at: when, seconds since 1970.
        action: the cloud's word for it, such as `terminate`, `stop`, `hibernate`.
    """

    at: float
    action: str


class NoticeSource(Protocol):
    """Where notices come from."""

    def ask(self) -> Notice | None:
        """Returns the notice; None if there is none.

        Raises:
            OSError: the source did not answer, or not as it should (`urllib`'s errors are such).
            ValueError: the answer makes no sense.
        """
        ...


class Ec2Notices:
    """Spot interruption notices of EC2, by version 2 of its metadata service.

    Args:
        url: of the service.
        token_s: how long a token lasts that is asked for.
    """

    def __init__(self, url: str = EC2_URL, *, token_s: int = 21600) -> None:
        self._url = url
        self._token_s = token_s
        self._token: str | None = None

    def ask(self) -> Notice | None:
        """Returns the notice; None if there is none. See `NoticeSource`."""
        try:
            answer = self._action()
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            self._token = None  # ran out
            answer = self._action()
        return None if answer is None else _ec2_notice(answer)

    def _action(self) -> str | None:
        if self._token is None:
            wish = {"X-aws-ec2-metadata-token-ttl-seconds": str(self._token_s)}
            self._token = _answer(f"{self._url}/latest/api/token", wish, method="PUT")
        header = {"X-aws-ec2-metadata-token": self._token}
        try:
            return _answer(f"{self._url}/latest/meta-data/spot/instance-action", header)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


class GcpNotices:
    """Preemption notices of Google Cloud.

    Args:
        url: of the metadata service.
    """

    def __init__(self, url: str = GCP_URL) -> None:
        self._url = url
        self._since: float | None = None

    def ask(self) -> Notice | None:
        """Returns the notice; None if there is none. See `NoticeSource`."""
        header = {"Metadata-Flavor": "Google"}
        text = _answer(f"{self._url}/computeMetadata/v1/instance/preempted", header).strip()
        if text not in ("TRUE", "FALSE"):
            raise ValueError(f"{text[:40]!r} is neither TRUE nor FALSE")
        if text == "FALSE":
            return None
        # It does not say when; it was said at some moment since the last question.
        self._since = time.time() if self._since is None else self._since
        return Notice(self._since + _GCP_NOTICE_S, "preempt")


SOURCES: dict[str, Callable[[str | None], NoticeSource]] = {
    "ec2": lambda url: Ec2Notices(url or EC2_URL),
    "gcp": lambda url: GcpNotices(url or GCP_URL),
}


def source_of(text: str) -> NoticeSource:
    """Returns the source that `ec2`, `gcp`, or either with a URL behind an equals sign names.

    Raises:
        InputError: it is no such name.
    """
    name, _, url = text.partition("=")
    if name not in SOURCES or (url and not url.startswith("http://")):
        raise InputError(
            f"{text!r} is no source of notices; write {' or '.join(SOURCES)}, or name=http://..."
        )
    return SOURCES[name](url or None)


class NoticeWatch:
    """Asks a source again and again, in the background, until it has a notice.

    A source that refuses or does not answer is warned about once, and asked on.

    Args:
        source: whom to ask.
        interval_s: between two questions.
    """

    def __init__(self, source: NoticeSource, *, interval_s: float = 5.0) -> None:
        self.notice: Notice | None = None
        self._source = source
        self._interval_s = interval_s
        self._done = threading.Event()
        self._complained = False
        self._thread = threading.Thread(target=self._watch, name="srifty-notices", daemon=True)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the asking."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            try:
                found = self._source.ask()
            except (OSError, ValueError, http.client.HTTPException) as error:
                found = None
                if not self._complained:
                    _log.warning(
                        "nothing known about notices of interruption (%s); asking on",
                        error,
                    )
                self._complained = True
            if found is not None:
                self.notice = found
                _log.warning("this VM is going to be taken away: %s", found)
                return
            self._done.wait(self._interval_s)


def _ec2_notice(text: str) -> Notice:
    """Returns the notice in `{"action": "terminate", "time": "2026-11-30T12:00:00Z"}`.

    Raises:
        ValueError: the text is none.
    """
    body: Any = json.loads(text)
    said = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    if not isinstance(said.get("action"), str):
        raise ValueError(f"{text[:80]!r} is no notice")
    try:
        at = datetime.fromisoformat(said["time"])
    except (KeyError, TypeError, ValueError):
        # Hibernation comes without a time, at once; to know that it comes is what matters.
        _log.warning("a notice without a time: %s", text[:80])
        soon_s = 0.0 if said["action"] == "hibernate" else _EC2_NOTICE_S
        return Notice(time.time() + soon_s, said["action"])
    return Notice((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), said["action"])


def _answer(url: str, headers: dict[str, str], *, method: str = "GET") -> str:
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - http only
    # Metadata services are on the VM's own link: never through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT_S) as answer:
        return cast("str", answer.read(_MOST_BYTES).decode())
