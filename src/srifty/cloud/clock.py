"""The time of a run: seconds since its command, as fast as real time or faster."""

from __future__ import annotations

import time
from dataclasses import dataclass

from srifty.core._checks import require_positive


@dataclass(frozen=True, slots=True)
class Clock:
    """Tells the seconds since a run's command, to all its processes alike.

    It follows the wall clock, not a process's own: a run outlives its controller.

    Attributes:
        origin_s: when the command was given, seconds since 1970.
        factor: seconds of the run that pass in one real second; other than 1 only where everything
            that happens is made up.
    """

    origin_s: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        require_positive("clock: factor", self.factor)

    @classmethod
    def start(cls, factor: float = 1.0) -> Clock:
        """Returns a clock that shows 0 now."""
        return cls(time.time(), factor)

    def now_s(self) -> float:
        """Returns the seconds of the run that have passed."""
        return max(0.0, self.at_s(time.time()))

    def at_s(self, unix_s: float) -> float:
        """Returns the run's time at a moment given in seconds since 1970."""
        return (unix_s - self.origin_s) * self.factor

    def unix_s(self, at_s: float) -> float:
        """Returns the moment, in seconds since 1970, of a time of the run."""
        return self.origin_s + at_s / self.factor

    def sleep(self, seconds: float) -> None:
        """Waits for so many seconds of the run."""
        time.sleep(max(0.0, seconds) / self.factor)
