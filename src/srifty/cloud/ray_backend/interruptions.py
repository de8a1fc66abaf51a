"""What EC2 tells a spot VM of its end (instance metadata service, version 2)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import datetime

_EC2 = "http://169.254.169.254"
_TIMEOUT_S = 2.0
_MOST_BYTES = 1 << 16


def interruption_unix_s(source: str) -> float | None:
    """Returns when this VM is going to be taken back, seconds since 1970; None: nobody says so.

    A service that does not answer says nothing: workers, who ask it too, tell of that.

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
        answer = _ask(
            urllib.request.Request(  # noqa: S310
                f"{base}/latest/meta-data/spot/instance-action",
                headers={"X-aws-ec2-metadata-token": token},
            )
        )
        return datetime.fromisoformat(json.loads(answer)["time"]).timestamp()
    except urllib.error.HTTPError as error:
        error.close()
        return None  # 404 is how EC2 says that nothing is planned
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
        return response.read(_MOST_BYTES).decode()
