"""When a worker should ask all others to save, or to save and stop."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from srifty.training.notices import NoticeWatch

_log = logging.getLogger(__name__)

# What a VM's last seconds are not spent on: a save that takes longer than the last one, the exit.
_MARGIN = 1.25
_SPARE_S = 2.0
# Steps that pass from a worker's wish to its fulfilment, and one more.
_STEPS = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for at the end of a step.

    Attributes:
        stop: that all workers stop.
        save: that all workers save.
        hurry: that they stop without saving, which would take too long.
    """

    stop: bool = False
    save: bool = False
    hurry: bool = False


def heed(
    remaining_s: float, *, save_s: float | None, step_s: float, saved_since: bool, is_busy: bool
) -> Wish:
    """Returns what to ask for when the VM is going to be taken away.

    Something is saved at once, as nobody knows for sure that there will be time later. Training
    then goes on for as long as a last save still fits, and its steps are not lost.

    Args:
        remaining_s: until the VM is gone.
        save_s: how long a save takes; None if there has been none.
        step_s: how long a step takes.
        saved_since: whether a save began after the notice came.
        is_busy: whether a save is being written.
    """
    needed_s = _MARGIN * (save_s or 0.0) + _STEPS * step_s + _SPARE_S
    if remaining_s <= needed_s:
        fits = save_s is None or save_s + _STEPS * step_s <= remaining_s
        return Wish(stop=True, hurry=is_busy or not fits)
    return Wish(save=not saved_since and not is_busy)


def save_interval_s(stall_s: float, save_s: float, failures_s: float) -> float:
    """Returns how long to train between two saves: √(2·stall·mean time between failures).

    That loses least to saves and to work done again (Young 1974). Saves run beside training, so
    what they cost is the stall while the state is copied.

    Args:
        stall_s: how long a save holds training up.
        save_s: how long it takes until it is durable; saves are at least twice this apart.
        failures_s: mean time between failures of the whole cluster.
    """
    return max(math.sqrt(2 * max(stall_s, 1e-3) * failures_s), 2 * save_s, 1.0)


class StopWatch:
    """Watches for what should end the training: a file, SIGTERM, notices of interruption.

    Args:
        stop_file: whose being there asks for a stop; None for none.
        notices: watches that are started and stopped with this one.
    """

    def __init__(self, stop_file: Path | None, notices: Sequence[NoticeWatch]) -> None:
        self._stop_file = stop_file
        self._notices = notices
        self._signalled = False
        self._before: Any = None
        self._saved_since = False

    def __enter__(self) -> Self:
        # Elsewhere Python forbids it; whoever runs training in a thread handles signals themselves.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._hear)
        for watch in self._notices:
            watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for watch in self._notices:
            watch.stop()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def wish(self, *, save_s: float | None, step_s: float, is_busy: bool) -> Wish:
        """Returns what to ask for now; see `heed` for the arguments."""
        if self._signalled or (self._stop_file is not None and os.path.exists(self._stop_file)):  # noqa: PTH110 - a third of Path.exists's time, at each step
            return Wish(stop=True)
        said = [watch.notice.at for watch in self._notices if watch.notice is not None]
        if not said:
            return Wish()
        asked = heed(
            min(said) - time.time(),
            save_s=save_s,
            step_s=step_s,
            saved_since=self._saved_since,
            is_busy=is_busy,
        )
        self._saved_since |= asked.save
        return asked
