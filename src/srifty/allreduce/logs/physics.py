"""What must hold between the figures of one row, whatever printed them.

An operation on `size` bytes that took `time` has the algorithm bandwidth `size / time`, and its bus
bandwidth is that times `2(n−1)/n` for an allreduce and `(n−1)/n` for an all-gather or
reduce-scatter (nccl-tests, PERFORMANCE.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from srifty.allreduce.logs.numbers import Printed

GIGA = 1e9
# No link of any VM carries more, and no collective between GPUs starts and ends sooner.
MOST_GBPS = 5000.0
LEAST_S = 1e-6
MOST_RANKS = 10**6
# Above this a printed bandwidth has digits enough to tell right from wrong.
_TELLING_GBPS = 0.1


class RankRange(NamedTuple):
    """World sizes that agree with some figures, both ends included."""

    low: int
    high: int

    def __contains__(self, n: object) -> bool:
        return isinstance(n, int) and self.low <= n <= self.high

    @property
    def tells(self) -> bool:
        """Whether it excludes any world size."""
        return self.low > 1 or self.high < MOST_RANKS


ANY_RANKS = RankRange(1, MOST_RANKS)


class Half(NamedTuple):
    """One measurement of a row: its out-of-place or its in-place half.

    Attributes:
        time: the printed time, in the table's unit.
        algbw: printed algorithm bandwidth, GB/s (1e9 B/s).
        busbw: printed bus bandwidth, GB/s.
        check: the data check as printed; empty where the table has none.
        in_place: whether the buffers were the same on both sides.
    """

    time: Printed
    algbw: Printed
    busbw: Printed
    check: str
    in_place: bool


def fits_unit(size_bytes: int, half: Half, unit_s: float) -> bool:
    """Returns whether `size / time` is the printed algorithm bandwidth, within both roundings."""
    if half.time.low <= 0:
        return False
    scale = size_bytes / (unit_s * GIGA)
    return scale / half.time.high <= half.algbw.high and scale / half.time.low >= half.algbw.low


def telling(half: Half) -> bool:
    """Returns whether the printed algorithm bandwidth has digits enough to prove the row."""
    algbw = half.algbw
    return algbw.value >= _TELLING_GBPS and algbw.high - algbw.value <= 0.06 * algbw.value


def ranks(half: Half, rings: int) -> RankRange | None:
    """Returns the world sizes for which `busbw / algbw` is `rings · (n−1)/n`; None: there is none.

    Args:
        half: the measurement.
        rings: 2 for an allreduce, 1 for an all-gather or reduce-scatter.
    """
    algbw, busbw = half.algbw, half.busbw
    low = max(busbw.low, 0.0) / (rings * algbw.high)
    if low >= 1:
        return None
    high = busbw.high / (rings * algbw.low) if algbw.low > 0 else math.inf
    # n = 1 / (1 − x) for x = (n−1)/n
    least = math.ceil(1 / (1 - low) - 1e-9)
    most = math.floor(min(1 / (1 - high) + 1e-9, MOST_RANKS)) if high < 1 else MOST_RANKS
    return RankRange(least, most) if least <= most else None


def fits_world(size_bytes: int, half: Half, unit_s: float, factor: float) -> bool:
    """Returns whether `factor` times the algorithm bandwidth is the printed bus bandwidth.

    Sharper than `ranks`: the algorithm bandwidth is known from the printed time too.

    Args:
        size_bytes: bytes of the message.
        half: the measurement, its time above 0.
        unit_s: seconds per unit of time.
        factor: bus bytes per message byte, as the collective and the world size have it.
    """
    scale = size_bytes / (unit_s * GIGA)
    low = max(scale / half.time.high, half.algbw.low)
    high = min(scale / half.time.low, half.algbw.high)
    return factor * low <= half.busbw.high and factor * high >= half.busbw.low


def agreed(ranges: list[RankRange]) -> tuple[RankRange, int]:
    """Returns the world sizes that most ranges hold in common, and how many ranges these are."""
    edges = sorted([(r.low, 0) for r in ranges] + [(r.high, 1) for r in ranges])
    best, depth = ANY_RANKS, 0
    most = low = 0
    for edge, closes in edges:
        if closes:
            if depth == most and low:
                best, low = RankRange(low, edge), 0
            depth -= 1
        else:
            depth += 1
            if depth > most:
                most, low = depth, edge
    return best, most
