"""The start and the end of the process: Ctrl-C is answered before, and after, there is a command.

Importing takes tenths of a second, and seconds with torch. A Ctrl-C that is raised inside an import
leaves by a traceback, or is turned into some other error by the module that is being imported; so
the process ends at once while nothing has been begun.
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

EXIT_INTERRUPTED = 130


def main() -> None:
    """Runs the command line."""
    # Registered first, so called last: what Python does after it is not to be disturbed.
    atexit.register(_answer_interrupts, signal.SIG_IGN)
    with ending_at_once():
        from srifty.cli.main import main as run
    try:
        run()
    finally:
        _answer_interrupts(_end)
        # Python remembers a Ctrl-C that passed through an exec() of text, whoever caught it later,
        # and would end by the signal instead of the exit code. The next exec() forgets it.
        exec("")  # noqa: S102 - nothing of anybody's


@contextmanager
def ending_at_once() -> Generator[None]:
    """Lets Ctrl-C end the process on the spot, with a word: for imports, which hold nothing."""
    before = _answer_interrupts(_end)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _answer_interrupts(handler: Any) -> Any:
    """Sets who answers Ctrl-C, and returns who did; None, and nothing set, where it is ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or before is None:  # such as under nohup
        return None
    try:
        return signal.signal(signal.SIGINT, handler)
    except ValueError:  # not the main thread, which alone is interrupted
        return None


def _end(*_: Any) -> None:
    os.write(2, b"stopped\n")
    os._exit(EXIT_INTERRUPTED)
