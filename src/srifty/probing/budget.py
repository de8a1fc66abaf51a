"""How the time of a probe is shared out. Pure: the caller holds the clock.

Rank 0 takes these decisions and tells the others, so that no rank waits for an operation that
another does not issue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srifty.probing.grid import Cell, Grid

# One sample of a small message averages over this long, enough to drown a clock's resolution and
# a scheduler's hiccup; 28 sizes of five repeats then take a quarter of the default budget.
SAMPLE_S = 0.1
_MOST_INNER = 2000
_LEAST_SAMPLE_S = 1e-4
# Samples are planned into this part of the time: agreeing costs some, and times scatter.
_PLANNED = 0.9
# An operation that may take longer is not started: silence must stay tellable from a lost rank.
MOST_OPERATION_S = 20.0
# From one rung of the ladder to the next, bytes grow at most so much.
_WIDEST_STEP = 8
_BELOW_THE_LADDER_BYTES = 512


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the first trial.

    Attributes:
        cell: what to try.
        in_grid: whether it was asked for; if not, it only tells how long the next may take.
    """

    cell: Cell
    in_grid: bool


def ladder(cells: Sequence[Cell]) -> tuple[Rung, ...]:
    """Returns the cells in the order of first trial, with steps between those far apart.

    A cell is tried only once a smaller one has told how long it may take, so that a slow link is
    noticed before it is given 512 MiB.

    Args:
        cells: ascending by total bytes.
    """
    rungs: list[Rung] = []
    below = _BELOW_THE_LADDER_BYTES
    for cell in cells:
        while below * _WIDEST_STEP < cell.total_bytes:
            below *= _WIDEST_STEP
            rungs.append(Rung(Cell(below), in_grid=False))
        rungs.append(Rung(cell, in_grid=True))
        below = cell.total_bytes
    return tuple(rungs)


def longest_s(before: Cell | None, before_s: float, cell: Cell) -> float:
    """Returns how long an operation may take, given the one before it on the ladder.

    Time grows no faster than the bytes; nothing is known of the first rung, which gets 0.
    """
    if before is None:
        return 0.0
    return before_s * max(1.0, cell.total_bytes / before.total_bytes)


def may_try(rung: Rung, rung_s: float, kept_s: Sequence[float], spent_s: float, grid: Grid) -> bool:
    """Whether a rung can be tried and, if asked for, sampled within the budget.

    Args:
        rung: the next one.
        rung_s: seconds that one operation of it may take.
        kept_s: seconds per operation of the cells tried so far.
        spent_s: seconds since the probe began.
        grid: what was asked for.
    """
    trials, repeats = (grid.warmup + 2, grid.repeats) if rung.in_grid else (2, 0)
    needed_s = trials * rung_s + repeats * rung_s + grid.repeats * sum(kept_s)
    return rung_s <= MOST_OPERATION_S and spent_s + needed_s <= grid.budget_s


def share_out(
    operation_s: Sequence[float], repeats: int, left_s: float, overhead_s: float = 0.0
) -> tuple[int, ...]:
    """Returns how many operations each sample averages over; the largest cells are dropped first.

    Args:
        operation_s: seconds that one operation of each cell took, the smallest cells first.
        repeats: samples of each cell.
        left_s: seconds for all of them.
        overhead_s: seconds that a sample takes beside its operations.

    Returns:
        One number per cell kept, the smallest cells first.
    """
    planned_s = _PLANNED * left_s
    kept, least_s = 0, 0.0
    for seconds in operation_s:
        least_s += repeats * (seconds + overhead_s)
        if least_s > planned_s:
            break
        kept += 1
    sample_s = SAMPLE_S
    while True:
        inner = tuple(_inner(seconds, sample_s) for seconds in operation_s[:kept])
        timed_s = sum(n * s for n, s in zip(inner, operation_s, strict=False))
        needed_s = repeats * (timed_s + kept * overhead_s)
        if needed_s <= planned_s:
            return inner
        if sample_s < _LEAST_SAMPLE_S:
            return (1,) * kept
        sample_s /= 2


def _inner(operation_s: float, sample_s: float) -> int:
    return max(1, min(_MOST_INNER, int(sample_s / operation_s)))


def that_fit(operation_s: float, inner: int, left_s: float) -> int:
    """Returns how many of the `inner` operations fit into the time left; 0 for none."""
    return max(0, min(inner, int(left_s / operation_s)))
