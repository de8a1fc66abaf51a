"""Functions of a path that each configuration takes by itself, from few evaluations.

Where ready fractions depend on a worker's micro-batch, the time at which transfer k is ready on the
slowest worker is no function of one variable any more. But it stays close to the slowest worker's
mean, which costs little at all transfers: between the transfers that are evaluated in full, the
time follows that mean in proportion. With one dominant kind of workers, or without noise, that is
exact; otherwise what may be missed is how much the noise's share of the time varies in between.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from srifty.simulator.convex import FEW_POINTS, MOST_LEVELS, TOLERANCE

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def path_values(
    evaluate: Callable[[IntArray, IntArray], FloatArray], near: FloatArray
) -> FloatArray:
    """Returns (R, K) values of R functions at K points of their paths.

    The points that are evaluated are halved until what lies between them is foretold.

    Args:
        evaluate: given rows (N,) and points (M,) of 0 to K − 1, returns their values (N, M).
        near: (R, K) values that those of `evaluate` follow; they never fall along a row.
    """
    rows, count = near.shape
    everything = np.arange(rows, dtype=np.int64)
    if count <= FEW_POINTS:
        return evaluate(everything, np.arange(count, dtype=np.int64))
    result = np.empty((rows, count))
    pending = everything
    knots = np.array([0, (count - 1) // 2, count - 1], dtype=np.int64)
    values = evaluate(pending, knots)
    for level in range(2, MOST_LEVELS + 1):
        gaps = np.flatnonzero(np.diff(knots) > 1)
        middles = (knots[gaps] + knots[gaps + 1]) // 2
        foretold = _between(near[pending], knots, values, middles)
        found = evaluate(pending, middles)
        miss = np.abs(found - foretold).max(axis=1, initial=0.0)
        values = np.insert(values, gaps + 1, found, axis=1)
        knots = np.insert(knots, gaps + 1, middles)
        done = (miss <= TOLERANCE * values[:, -1]) | (level == MOST_LEVELS)
        here = pending[done]
        result[here] = _between(near[here], knots, values[done], np.arange(count, dtype=np.int64))
        pending, values = pending[~done], values[~done]
        if not pending.size:
            break
    return result


def _between(near: FloatArray, knots: IntArray, values: FloatArray, points: IntArray) -> FloatArray:
    """Returns (N, M) values at points, from those (N, L) at the knots."""
    upper = np.clip(np.searchsorted(knots, points), 1, len(knots) - 1)
    at_knots = near[:, knots]
    width = at_knots[:, 1:] - at_knots[:, :-1]
    slope = np.diff(values, axis=1) / np.where(width > 0, width, 1.0)
    ahead = near[:, points] - at_knots[:, upper - 1]
    return values[:, upper - 1] + slope[:, upper - 1] * ahead
