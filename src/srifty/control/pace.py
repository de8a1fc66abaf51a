"""How fast a run is, seen at its best: throughput over a window, with a one-sided bound.

    x_j   iterations per second in the j-th of m blocks of equal length (training time only)
    bound = mean(x) + t(q, m−1) · std(x) / √m

Luo et al. 2022 (continual optimization) judge limits by the optimistic end of a 95 % bound over the
last K = 5 minutes. Single iterations are no independent samples of a pace; means of blocks nearly
are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from srifty.core._checks import require, require_count, require_positive
from srifty.core.events import Progress

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PaceRule:
    """How the pace is measured, and when a slow one counts.

    Attributes:
        window_s: seconds of training that are looked at (the paper's K).
        blocks: block means in a window, at least 10.
        confidence: of the one-sided bound.
        least_iterations: iterations that a window holds at least; it reaches back further for them.
        stride: fraction of a window that lies between two that count as consecutive.
        misses: consecutive windows that must miss a limit before anything is done.
    """

    window_s: float = 300.0
    blocks: int = 10
    confidence: float = 0.95
    least_iterations: int = 20
    stride: float = 0.2
    misses: int = 2

    def __post_init__(self) -> None:
        require_positive("window", self.window_s)
        require_count("blocks", self.blocks, least=10, most=10_000)
        require_count("least iterations", self.least_iterations, least=self.blocks)
        require_count("misses", self.misses)
        require_positive("stride", self.stride)
        require(
            0.5 <= self.confidence < 1.0,
            f"confidence of the pace must lie between 0.5 and 1 (exclusive), not {self.confidence}",
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """Iterations per second over a window.

    Attributes:
        mean: iterations per second.
        bound: the optimistic end of the interval.
        window_s: seconds of training it was measured over.
    """

    mean: float
    bound: float
    window_s: float

    @property
    def iteration_s(self) -> float:
        """Mean seconds of an iteration; infinite where none was made."""
        return 1.0 / self.mean if self.mean > 0 else math.inf

    @property
    def best_iteration_s(self) -> float:
        """Seconds of an iteration at the optimistic bound; infinite where none was made."""
        return 1.0 / self.bound if self.bound > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Watch:
    """What is kept of the progress on one configuration; start anew with each configuration.

    Attributes:
        points: progress reports, oldest first, no more than the window needs.
        misses: windows in a row whose bound misses a limit.
        judged_at_s: seconds since the command when the last window was judged; −inf: none yet.
    """

    points: tuple[Progress, ...] = ()
    misses: int = 0
    judged_at_s: float = -math.inf

    def is_alarm(self, rule: PaceRule) -> bool:
        """Whether as many windows as it takes have missed a limit."""
        return self.misses >= rule.misses


def pace_of(points: Sequence[Progress], rule: PaceRule) -> Pace | None:
    """Returns the pace at the last report, or None while there are too few iterations.

    Args:
        points: progress reports of one configuration, oldest first; reports may be irregular.
        rule: window, blocks and confidence. With less history than a window, what there is.
    """
    if len(points) < 2:
        return None
    time_s = np.array([p.at_s - p.paused_s for p in points], dtype=np.float64)
    done = np.array([p.iteration for p in points], dtype=np.float64)
    enough_s = float(np.interp(float(done[-1]) - rule.least_iterations, done, time_s))
    if done[-1] - done[0] < rule.least_iterations:
        # So few iterations say little, unless they took many windows: then the run hardly moves.
        if time_s[-1] - time_s[0] < 2 * rule.window_s:
            return None
        enough_s = float(time_s[0])
    start_s = max(min(float(time_s[-1]) - rule.window_s, enough_s), float(time_s[0]))
    window_s = float(time_s[-1]) - start_s
    if window_s <= 0:
        return None
    edges_s = np.linspace(start_s, float(time_s[-1]), rule.blocks + 1)
    rates: FloatArray = np.diff(np.interp(edges_s, time_s, done)) / (window_s / rule.blocks)
    mean = float(rates.mean())
    error = float(rates.std(ddof=1)) / math.sqrt(rule.blocks)
    return Pace(mean, mean + float(stdtrit(rule.blocks - 1, rule.confidence)) * error, window_s)


def watch(
    before: Watch, point: Progress, least_pace: float, rule: PaceRule
) -> tuple[Watch, Pace | None]:
    """Returns the watch after one more report, and the pace.

    Args:
        before: the watch so far.
        point: the report.
        least_pace: iterations per second that keep all limits from here on; 0 without limits.
        rule: how the pace is measured. Windows are judged a stride apart, so that two in a row
            are not one and the same.
    """
    points = _kept((*before.points, point), rule)
    pace = pace_of(points, rule)
    stride_s = rule.stride * rule.window_s
    if pace is None or point.at_s - before.judged_at_s < stride_s:
        return Watch(points, before.misses, before.judged_at_s), pace
    misses = before.misses + 1 if pace.bound < least_pace else 0
    return Watch(points, misses, point.at_s), pace


def _kept(points: tuple[Progress, ...], rule: PaceRule) -> tuple[Progress, ...]:
    """Returns the last points, as many as windows still need."""
    last = points[-1]
    keep_from = 0
    for index, point in enumerate(points):
        old = (last.at_s - last.paused_s) - (point.at_s - point.paused_s) > 2 * rule.window_s
        if not (old and last.iteration - point.iteration >= rule.least_iterations):
            break
        keep_from = index
    return points[keep_from:]
