"""Becomes a command that the kernel kills when the process that started it dies.

    python bound.py COMMAND [ARGUMENTS]

torchrun puts workers into sessions of their own and leaves them behind when it is killed, which is
what Ray does to it when an agent ends: they would train on beside those that take their place.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Binds this process to its parent and becomes the command."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        raise SystemExit(1)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - the user's own script, run as they ask


if __name__ == "__main__":
    main()
