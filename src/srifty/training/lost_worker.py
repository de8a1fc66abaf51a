"""What to say when training ends because another worker is gone."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


@contextmanager
def explained(where_to_go_on: Callable[[], str]) -> Generator[None]:
    """Has one line follow the traceback of an error that a lost worker led to.

    The error comes up in the script's own backward pass, out of reach of any `except` here.

    Args:
        where_to_go_on: says what a new start goes on with.
    """
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(kind, error, traceback)
        if tells_of_a_lost_worker(error):
            _log.error(
                "another worker was lost (its own output says why, if it could); start all "
                "workers again to go on %s",
                where_to_go_on(),
            )

    sys.excepthook = hook
    try:
        yield
    finally:
        if sys.excepthook is hook:
            sys.excepthook = before
