"""What EC2 tells a spot VM of its end (instance metadata service, version 2)."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any, cast

_EC2 = "http://169.254.169.254"
_TIMEOUT_S = 2.0
_MOST_BYTES = 1 << 16
# What EC2 gives a VM that it takes back, where it does not say when.
_NOTICE_S = 120.0


def interruption_unix_s(source: str) -> float | None:
    """Returns when this VM is going to be taken back, seconds since 1970; None: nobody says so.

    A token is asked for each time, so none runs out. A service that refuses, fails, or answers what
    makes no sense says nothing: workers, who ask it too, tell of that.

    Args:
        source: `ec2`, or `ec2=URL`; of any other nothing is known.
    """
    name, _, url = source.partition("=")
    if name != "ec2":
        return None
    base = url or _EC2
    try:
        token = _ask(
            urllib.request.Request(  # noqa: S310 - http, to the VM's own host
                f"{base}/latest/api/token",
                method="PUT",
                headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"},
            )
        )
        answer: Any = json.loads(
            _ask(
                urllib.request.Request(  # noqa: S310
                    f"{base}/latest/meta-data/spot/instance-action",
                    headers={"X-aws-ec2-metadata-token": token},
                )
            )
        )
        return _end_unix_s(answer)
    except urllib.error.HTTPError as error:
        error.close()
        return None  # 404 is how EC2 says that nothing is planned
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _end_unix_s(answer: Any) -> float | None:
    said = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if not isinstance(said.get("action"), str):
        return None
    try:
        end = datetime.fromisoformat(said["time"])
    except (KeyError, TypeError, ValueError):
        # Hibernation begins at once, and comes without a time.
        return time.time() + (0.0 if said["action"] == "hibernate" else _NOTICE_S)
    return (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()


def _ask(request: urllib.request.Request) -> str:
    # The service is on the VM's own link: never through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_TIMEOUT_S) as response:
        return response.read(_MOST_BYTES).decode()
