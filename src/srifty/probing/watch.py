"""One thread measures, another waits for it: so that neither Ctrl-C nor a silent rank can hang.

A thread that waits for other ranks sits inside the library, where Python's signal handlers do not
run. The waiting thread can always act: it asks the measuring one to stop at the next operation and,
should that not come in time, leaves without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from srifty.errors import ProbeFailed

# Longer than any operation that is started (see budget.MOST_OPERATION_S), warm-up of NCCL included.
SILENCE_S = 60.0
GRACE_S = 5.0
_LOOK_EVERY_S = 0.1


class ProbeStopped(Exception):  # noqa: N818 - a wish that was met, not an error
    """Somebody asked the measurement to stop; what was measured until then holds."""


class Watch:
    """What the measuring and the waiting thread tell each other."""

    def __init__(self) -> None:
        self._heard_at_s = time.monotonic()
        self._asked_at_s: float | None = None

    def tick(self) -> None:
        """Says that the other ranks still answer."""
        self._heard_at_s = time.monotonic()

    def ask_to_stop(self) -> None:
        """Asks the measuring thread to stop at its next operation; asking again changes nothing."""
        if self._asked_at_s is None:
            self._asked_at_s = time.monotonic()

    @property
    def is_stop_asked(self) -> bool:
        """Whether somebody asked."""
        return self._asked_at_s is not None

    @property
    def silence_s(self) -> float:
        """Seconds since the last tick."""
        return time.monotonic() - self._heard_at_s

    @property
    def waited_s(self) -> float:
        """Seconds since somebody asked to stop; 0 if nobody did."""
        return 0.0 if self._asked_at_s is None else time.monotonic() - self._asked_at_s


def run_watched(
    task: Callable[[], None],
    watch: Watch,
    *,
    silence_s: float = SILENCE_S,
    grace_s: float = GRACE_S,
) -> None:
    """Runs the task in a thread of its own until it ends, falls silent or does not stop when asked.

    Args:
        task: ticks the watch, and raises `ProbeStopped` soon after it is asked to stop.
        watch: what the two tell each other.
        silence_s: the longest time between two ticks.
        grace_s: how long the task may take to stop.

    Raises:
        ProbeStopped: it was asked to stop, and did or was left behind.
        ProbeFailed: no tick for too long.
        BaseException: whatever the task raised.
    """
    ended = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody waits
            raised.append(error)
        finally:
            ended.set()

    watch.tick()
    threading.Thread(target=run, name="probe", daemon=True).start()
    while not ended.wait(_LOOK_EVERY_S):
        if watch.waited_s > grace_s:
            raise ProbeStopped
        if watch.silence_s > silence_s:
            raise ProbeFailed(f"the other ranks have not answered for {silence_s:.0f} s")
    if raised:
        raise raised[0]
