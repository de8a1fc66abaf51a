"""Convex functions of one variable at many points, from few evaluations.

The time at which the slowest worker has done a fraction u of its backward pass is convex in u (a
mean of maxima of lines). So it is evaluated on a grid that is refined only while its middles lie
noticeably below the chords: a convex function that touches its chord in between is that chord.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Up to so many points, all are evaluated.
FEW_POINTS = 8
# A middle may lie below its chord by this share of the last value; what is between the grid's
# points is then off by at most twice as much.
TOLERANCE = 2e-5
# The finest grid has 2 ** MOST_LEVELS intervals.
MOST_LEVELS = 6


def convex_values(
    evaluate: Callable[[IntArray, FloatArray], FloatArray], rows: int, at: FloatArray
) -> FloatArray:
    """Returns (R, K) values of R convex functions at K points.

    Args:
        evaluate: given rows (N,) and points (M,), returns their values (N, M).
        rows: number of functions, R.
        at: (K,) points, ascending.
    """
    everything = np.arange(rows, dtype=np.int64)
    if len(at) <= FEW_POINTS or at[-1] <= at[0]:
        return evaluate(everything, at)
    result = np.empty((rows, len(at)))
    pending = everything
    grid = np.linspace(float(at[0]), float(at[-1]), 3)
    values = evaluate(pending, grid)
    for level in range(1, MOST_LEVELS + 1):
        chords = (values[:, :-2:2] + values[:, 2::2]) / 2
        gap = (chords - values[:, 1::2]).max(axis=1)
        done = (gap <= TOLERANCE * values[:, -1]) | (level == MOST_LEVELS)
        result[pending[done]] = _interpolate(grid, values[done], at)
        pending, values = pending[~done], values[~done]
        if not pending.size:
            break
        middles = (grid[:-1] + grid[1:]) / 2
        finer = np.empty((len(pending), len(grid) + len(middles)))
        finer[:, ::2] = values
        finer[:, 1::2] = evaluate(pending, middles)
        grid, values = np.sort(np.concatenate([grid, middles])), finer
    return result


def _interpolate(grid: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """Returns (N, K) values between those of (N, M) on the grid."""
    upper = np.clip(np.searchsorted(grid, at), 1, len(grid) - 1)
    share = (at - grid[upper - 1]) / (grid[upper] - grid[upper - 1])
    return values[:, upper - 1] * (1 - share) + values[:, upper] * share
