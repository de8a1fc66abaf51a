"""What to say when training ends because another worker is gone."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from types import TracebackType

# Torch's backends have no error of their own for it in all versions; these are their words.
_GONE = re.compile(
    r"Connection (closed|reset|refused)|closed by peer|Broken pipe|gloo/transport|"
    r"NCCL (error|communicator)|remote process exited|[Tt]imed out waiting",
)

_log = logging.getLogger(__name__)


def tells_of_a_lost_worker(error: BaseException) -> bool:
    """Returns whether an error, or what caused it, is that of a message that did not come."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RuntimeError) and _GONE.search(str(cause)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def explain_lost_workers(where_to_go_on: Callable[[], str]) -> Callable[[], None]:
    """Has a line come before the traceback of an error that a lost worker led to.

    The error comes up in the script's own backward pass, out of reach of any `except` here, and by
    the time it is shown the loop over the steps is closed. So this holds until it is undone.

    Args:
        where_to_go_on: says what a new start goes on with.

    Returns:
        what undoes it.
    """
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        # First, as torchrun may end this process while the traceback is being written.
        if tells_of_a_lost_worker(error):
            _log.error(
                "another worker was lost (its own output says why, if it could); start all "
                "workers again to go on %s",
                where_to_go_on(),
            )
        before(kind, error, traceback)

    def undo() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before

    sys.excepthook = hook
    return undo
