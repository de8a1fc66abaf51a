"""The segments of a latency curve: how few explain the probes, or follow a proposed curve."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from srifty.compute.probes import Floats, Probes

# Lines and two-segment curves that meet all probes this well (standard deviation of the relative
# residuals, fitted parameters discounted) are taken as they are: no clock tells them apart.
EXACT_RMS = 0.003
# Few probes: at most 3 segments, fewer if they follow the proposed curve this well (RMS).
FEW_SEGMENTS, FOLLOW_RMS = 3, 0.002
# Many probes: at most this many segments, and at least three probes for each.
MANY_SEGMENTS = 6
# Points per curve between which knots are chosen.
GRID_POINTS = 41


def exact_segments(probes: Probes) -> tuple[Floats, Floats] | None:
    """Returns knots and latencies of a line, else of two segments, that meet all probes, if any.

    Args:
        probes: at least two.
    """
    batch, latency, noise = probes.batch, probes.latency_s, probes.noise
    ends = batch[[0, -1]]
    intercept, slope = _line(batch, latency, noise)
    candidates = [(2, ends, np.asarray(intercept + slope * ends))]
    # Two lines have four parameters: with up to five probes that they fit proves nothing.
    for split in range(2, len(batch) - 1) if len(batch) >= 6 else ():
        low, high = slice(None, split), slice(split, None)
        first = _line(batch[low], latency[low], noise[low])
        second = _line(batch[high], latency[high], noise[high])
        if first[1] == second[1]:
            continue
        bend = (first[0] - second[0]) / (second[1] - first[1])
        if not batch[split - 1] <= bend <= batch[split] or bend in ends:
            continue
        knots = np.array([ends[0], bend, ends[1]])
        values = np.append(first[0] + first[1] * knots[:2], second[0] + second[1] * knots[2])
        candidates.append((4, knots, values))
    for parameters, knots, values in candidates:
        error = np.interp(batch, knots, values) / latency - 1.0
        variance = np.sum(error**2) / max(1, len(batch) - parameters)
        if variance <= EXACT_RMS**2 and np.all(values > 0.0):
            return knots, values
    return None


def few_segments(knots: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Returns the fewest segments, at most `FEW_SEGMENTS`, that follow a piecewise-linear curve.

    Args:
        knots: the curve's batch sizes, at least two, ascending.
        values: its latencies, positive.
    """
    grid = _octave_grid(knots)
    dense = np.interp(grid, knots, values)
    chosen, fitted = grid[[0, -1]], dense[[0, -1]]
    for indices in _segmentations(grid, dense, FEW_SEGMENTS):
        chosen = grid[indices]
        fitted, error = _at_knots(chosen, grid, dense, np.ones_like(grid))
        fitted = np.maximum(fitted, 0.5 * dense[indices])
        if error <= FOLLOW_RMS**2:
            break
    return chosen, fitted


def many_segments(probes: Probes, knots: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Returns the curve through many probes with the lowest Bayesian information criterion.

    Args:
        probes: at least six.
        knots: batch sizes of a piecewise-linear curve that proposes where to bend, ascending.
        values: its latencies, positive.
    """
    count, best = len(probes), np.inf
    grid = _octave_grid(knots)
    dense = np.interp(grid, knots, values)
    chosen, fitted = grid[[0, -1]], dense[[0, -1]]
    for indices in _segmentations(grid, dense, min(MANY_SEGMENTS, count // 3)):
        proposed, error = _at_knots(grid[indices], probes.batch, probes.latency_s, probes.noise)
        # s + 1 latencies and s - 1 inner knots are free.
        parameters = 2 * (len(indices) - 1)
        criterion = count * np.log(error + EXACT_RMS**2) + parameters * np.log(count)
        if criterion < best and np.all(proposed > 0.3 * dense[indices]):
            best, chosen, fitted = criterion, grid[indices], proposed
    return chosen, fitted


def largest_fall(latency: Floats) -> float:
    """Returns by which fraction a latency lies below the highest one at a smaller batch.

    Args:
        latency: positive, in the order of the batch sizes.
    """
    return float(np.max(1.0 - latency / np.maximum.accumulate(latency)))


def level_falls(values: Floats) -> Floats:
    """Returns the nearest non-decreasing values (pool adjacent violators, relative weights).

    Args:
        values: positive, in the order of the batch sizes.
    """
    blocks: list[tuple[float, float, int]] = []
    for value in values.tolist():
        level, weight, count = float(value), 1.0 / float(value) ** 2, 1
        while blocks and blocks[-1][0] > level:
            other, other_weight, other_count = blocks.pop()
            level = (level * weight + other * other_weight) / (weight + other_weight)
            weight, count = weight + other_weight, count + other_count
        blocks.append((level, weight, count))
    return np.concatenate([np.full(count, level) for level, _, count in blocks])


def _octave_grid(knots: Floats) -> Floats:
    evenly = np.exp(np.linspace(np.log(knots[0]), np.log(knots[-1]), GRID_POINTS, dtype=np.float64))
    return np.unique(np.concatenate((evenly[1:-1], knots)))


def _least_squares(rows: Floats, target: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(rows, target, rcond=None)[0], dtype=np.float64)


def _line(batch: Floats, latency: Floats, noise: Floats) -> tuple[float, float]:
    """Returns intercept and slope of the relative least-squares line."""
    rows = np.column_stack((np.ones_like(batch), batch)) / (latency * noise)[:, None]
    # Scaled columns: batch sizes span decades.
    scale = np.sqrt((rows**2).sum(axis=0))
    solution = _least_squares(rows / scale, 1.0 / noise)
    return float(solution[0] / scale[0]), float(solution[1] / scale[1])


def _segmentations(grid: Floats, values: Floats, most: int) -> list[NDArray[np.intp]]:
    """Returns for 1 to `most` segments the grid indices of the best knots.

    Dynamic programming: least sum of squared relative distances between chords and dense curve.
    """
    size = len(grid)
    cost = np.full((size, size), np.inf)
    for start in range(size - 1):
        stops = np.arange(start + 1, size)
        slopes = (values[stops] - values[start]) / (grid[stops] - grid[start])
        chords = values[start] + slopes[:, None] * (grid - grid[start])
        inside = (np.arange(size) >= start) & (np.arange(size) < stops[:, None])
        cost[start, stops] = (((chords / values - 1.0) ** 2) * inside).sum(axis=1)
    best, came_from = cost[0], cast("list[NDArray[np.intp]]", [])
    found = [np.array([0, size - 1])]
    while len(found) < most:
        through = best[:, None] + cost
        came_from.append(through.argmin(axis=0))
        best = through.min(axis=0)
        chosen = [size - 1]
        for previous in reversed(came_from):
            chosen.append(int(previous[chosen[-1]]))
        found.append(np.unique(np.array([0, *chosen])))
    return found


def _at_knots(knots: Floats, at: Floats, values: Floats, noise: Floats) -> tuple[Floats, float]:
    """Returns the relative least-squares latencies at the knots, and the mean squared residual."""
    hats = np.column_stack([np.interp(at, knots, unit) for unit in np.eye(len(knots))])
    rows = hats / (values * noise)[:, None]
    fitted = _least_squares(rows, 1.0 / noise)
    return fitted, float(np.mean((rows @ fitted - 1.0 / noise) ** 2))
