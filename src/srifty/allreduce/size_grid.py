"""Allreduce times of a world as a table over message sizes, and how they go on beyond it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.table import LARGE_BYTES

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Times are tabled at these sizes, 4 B to 64 GiB, and interpolated in log size between them; beyond,
# they grow with the bytes.
GRID_BYTES = np.exp2(np.arange(2, 37, dtype=np.float64))
# Beyond the measured sizes: large messages show the bandwidth, those up to 64 KiB the latency.
_LATENCY_SHOWS_BYTES = 2**16


def covers(measured_bytes: tuple[float, float], grid: FloatArray = GRID_BYTES) -> NDArray[np.bool_]:
    """Marks the grid's sizes within a factor of two of what was measured."""
    low, high = measured_bytes
    return (low / 2 <= grid) & (high * 2 >= grid)


def last_marked(marked: BoolArray) -> int:
    """Returns the index of the last marked entry."""
    return len(marked) - 1 - int(marked[::-1].argmax())


def extended(
    log_time: FloatArray,
    grid: FloatArray,
    measured_bytes: tuple[float, float],
    *,
    least_s: FloatArray,
    bus_bytes_per_s: float,
    bus_factor: FloatArray,
) -> FloatArray:
    """Returns (R, G) times on a grid that keep to physics beyond the measured sizes.

    Above them time grows with the bytes, at the measured pace where that is one of bandwidth, else
    at what the network is rated for; below them it stays where latency shows, else it falls with
    the bytes down to a usual latency. Larger times are extended to larger ones.
    """
    low, high = measured_bytes
    time_s = np.exp(log_time)
    inside = np.flatnonzero(covers(measured_bytes, grid))
    first, last = inside[0], inside[-1]
    above = grid[last] < grid
    if high >= LARGE_BYTES:
        time_s[:, above] = time_s[:, last, None] * grid[above] / grid[last]
    else:
        extra = bus_factor[:, None] * (grid[above] - grid[last])
        time_s[:, above] = time_s[:, last, None] + extra / bus_bytes_per_s
    below = grid[first] > grid
    if low <= _LATENCY_SHOWS_BYTES:
        time_s[:, below] = time_s[:, first, None]
    else:
        falling = time_s[:, first, None] * grid[below] / grid[first]
        falling = np.maximum(falling, least_s[:, None])
        time_s[:, below] = np.minimum(falling, time_s[:, first, None])
    return np.log(time_s)


def tabled_at(size_bytes: FloatArray, tabled: FloatArray, *, slope: float = 0.0) -> FloatArray:
    """Returns (R, K) tabled values at K sizes, linear in log size, with `slope` beyond the grid.

    Args:
        size_bytes: (K,) sizes.
        tabled: (R, G) values on the grid.
        slope: what is added for each e-fold beyond the largest size of the grid.
    """
    below, share = between_sizes(size_bytes)
    octaves = np.maximum(np.log2(size_bytes / GRID_BYTES[-1]), 0.0)
    beyond = slope * np.log(2) * octaves
    return (1 - share) * tabled[:, below] + share * tabled[:, below + 1] + beyond


def between_sizes(size_bytes: FloatArray) -> tuple[IntArray, FloatArray]:
    """Returns (K,) the grid's size below each, and how far above it each lies, in octaves."""
    last = len(GRID_BYTES) - 1
    inside = np.clip(np.log2(size_bytes / GRID_BYTES[0]), 0.0, float(last))
    below = np.minimum(inside.astype(np.int64), last - 1)
    return below, inside - below
