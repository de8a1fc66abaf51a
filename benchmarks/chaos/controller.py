"""The command line, killed at one of its writes into the ledger.

python controller.py N WHEN ARGUMENTS...

kills itself (SIGKILL) at the Nth step that its controller writes down: `intent` as soon as it is
written, before anything is done; `done` when it was done, before that is written; `asked` when
VMs were noted, before the launch is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from srifty.cli.start import main
from srifty.control.ledger import Ledger

WHEN = ("intent", "done", "asked")


def kill_at(number: int, when: str) -> None:
    """Has the ledger's nth write of a kind be the process's last act."""
    count = 0

    def killing(real: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
        def write(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            is_last = count == number
            if is_last and before:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = real(*arguments, **named)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return write

    match when:
        case "intent":
            Ledger.begin = killing(Ledger.begin, before=False)
        case "done":
            Ledger.done = killing(Ledger.done, before=True)
        case _:
            Ledger.ask = killing(Ledger.ask, before=False)


if __name__ == "__main__":
    kill_at(int(sys.argv[1]), sys.argv[2])
    sys.argv = ["srifty", *sys.argv[3:]]
    main()
