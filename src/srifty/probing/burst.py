"""Whether a link that was kept busy became slower and stayed so. Pure.

Instance types rated "up to" a speed burst on credits and then fall to a baseline. The rule: the
bandwidth dropped for good if three in four points of the last third of the time are over 20 % below
the median of the first third (or of the samples taken just before, should those be faster). So a
disturbance that comes and goes is no drop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

from srifty.core.allreduce import Collective
from srifty.probing.grid import Cell

# Repeats of one configuration differ by about 10 % at 1 MiB and above; twice that is no noise.
LOSS = 0.2
_SHARE = 0.75
_LEAST_POINTS = 3  # in a third
_ALMOST = 1 - 1e-9


class Trend(Enum):
    """What a long run showed."""

    STEADY = "The bandwidth held to the end of the long run."
    DROPPED = "The bandwidth fell during the long run and stayed low: a burst, then a baseline."
    TOO_SHORT = "The long run has too few points to tell a burst from a baseline; make it longer."


@dataclass(frozen=True, slots=True)
class LongPoint:
    """One point of a long run.

    Attributes:
        at_s: seconds from its begin to the end of this point.
        time_s: seconds that one operation took.
    """

    at_s: float
    time_s: float


@dataclass(frozen=True, slots=True)
class LongRun:
    """One large message repeated for long.

    Attributes:
        cell: the message, and how many of them at once.
        world_size: number of ranks.
        points: in order of time; at least one.
        before_s: seconds per operation of the grid's own samples of that size.
    """

    cell: Cell
    world_size: int
    points: tuple[LongPoint, ...]
    before_s: tuple[float, ...] = ()

    @property
    def first_s(self) -> float:
        """Median seconds in the first third, or of the grid's samples if those were faster."""
        third = [point.time_s for point in self._first_third()]
        return min(median(times) for times in (third, self.before_s) if times)

    @property
    def last_s(self) -> float:
        """Median seconds in the last third."""
        return median(point.time_s for point in self._last_third())

    @property
    def trend(self) -> Trend:
        """What the points show; see the rule at the top."""
        last = self._last_third()
        if min(len(self._first_third()), len(last)) < _LEAST_POINTS:
            return Trend.TOO_SHORT
        slower = sum(self.first_s < (1 - LOSS) * point.time_s for point in last)
        return Trend.DROPPED if slower >= _SHARE * len(last) else Trend.STEADY

    def bus_bytes_per_s(self, time_s: float) -> float:
        """Returns the bus bandwidth at so many seconds per operation, in bytes per second."""
        return self.cell.total_bytes / time_s * Collective.ALL_REDUCE.bus_factor(self.world_size)

    def slices(self, count: int = 8) -> tuple[LongPoint, ...]:
        """Returns the end and the median time of each of `count` equal stretches of time.

        Stretches without a point are left out.
        """
        ends = [self.points[-1].at_s * (number + 1) / count for number in range(count)]
        parts = [self._between(end - ends[0], end) for end in ends]
        return tuple(
            LongPoint(part[-1].at_s, median(point.time_s for point in part))
            for part in parts
            if part
        )

    # Thirds of the time, not of the points: on the slow part of a run each point takes longer, so
    # that there are fewer of them.
    def _first_third(self) -> Sequence[LongPoint]:
        return self._between(0.0, self.points[-1].at_s / 3) or self.points[:1]

    def _last_third(self) -> Sequence[LongPoint]:
        end_s = self.points[-1].at_s
        return self._between(end_s * 2 / 3, end_s) or self.points[-1:]

    def _between(self, after_s: float, until_s: float) -> Sequence[LongPoint]:
        # The end of the whole run belongs to its last stretch whatever a division rounds to.
        until_s = self.points[-1].at_s if until_s > self.points[-1].at_s * _ALMOST else until_s
        return [point for point in self.points if after_s < point.at_s <= until_s]
