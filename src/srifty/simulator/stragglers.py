"""The law of the slowest worker: mean and spread of the maximum of independent normals.

An iteration waits for its slowest worker. With worker times normal and independent, the maximum
has the distribution function

    F(x) = Π_g Φ((x − m_g) / s_g) ^ w_g          (g: groups of w_g equal workers)

so that, with F ≈ 0 below `lo` and F ≈ 1 above `hi`,

    E[max]           = hi − ∫ F(x) dx
    E[(max − lo)²]   = (hi − lo)² − 2 ∫ (x − lo) F(x) dx

Luo et al. 2022 (section 4.3) estimate the same mean by drawing samples; that variant is kept as
`sampled_maximum`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

FloatArray = NDArray[np.float64]

# Probability left out below and above the integration range. 1e-4 of one spread, so at 10 %
# spread a relative error of 1e-5.
_TAIL = 1e-4

# Gauss-Legendre nodes on [0, 1], graded towards the lower end (x = lo + L t²): every group whose
# lower tail begins at or below `lo` varies on a scale no finer than its distance from `lo`, so the
# detail sits there. 16 nodes keep the worst case (spreads of 0 to 10 %, 1 to 300 workers) below
# 3e-4 of the mean.
_NODES = 16
_t, _w = np.polynomial.legendre.leggauss(_NODES)
# Maxima that are worked on together; keeps the work inside the CPU's cache.
_BLOCK = 2048
_POSITIONS: FloatArray = np.square((_t + 1) / 2)
_WEIGHTS: FloatArray = _w / 2 * (_t + 1)


def tail_quantiles(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns where the maximum of `weights` standard normals begins and ends, in spreads.

    Args:
        weights: number of workers per group, 0 for an absent group; any shape.

    Returns:
        Two arrays of that shape: the quantiles at `_TAIL` and `1 − _TAIL`; −inf for absent groups.
    """
    present = weights > 0
    count = np.where(present, weights, 1.0)
    low = ndtri(np.exp(np.log(_TAIL) / count))
    high = -ndtri(-np.expm1(np.log1p(-_TAIL) / count))
    return np.where(present, low, -np.inf), np.where(present, high, -np.inf)


def expected_maximum(
    means: FloatArray,
    stds: FloatArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Returns mean and standard deviation of the maximum of independent normals.

    Args:
        means: (..., G) mean of each group's workers; any unit.
        stds: (..., G) standard deviation, 0 or more, in the same unit.
        weights: (..., G) workers per group (broadcast over leading axes); 0 for an absent group. At
            least one group of a row is present.

    Returns:
        The mean (...) and the standard deviation (...).
    """
    shape = means.shape[:-1]
    groups = means.shape[-1]
    flat_weights = np.broadcast_to(weights, means.shape).reshape(-1, groups)
    low, high = tail_quantiles(weights)
    low = np.broadcast_to(low, means.shape).reshape(-1, groups)
    high = np.broadcast_to(high, means.shape).reshape(-1, groups)
    flat_means, flat_stds = means.reshape(-1, groups), stds.reshape(-1, groups)
    mean, std = np.empty(len(flat_means)), np.empty(len(flat_means))
    for start in range(0, len(mean), _BLOCK):
        block = slice(start, start + _BLOCK)
        mean[block], std[block] = _maximum_of_block(
            flat_means[block], flat_stds[block], flat_weights[block], low[block], high[block]
        )
    return mean.reshape(shape), std.reshape(shape)


def _maximum_of_block(
    means: FloatArray, stds: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns mean and standard deviation of each row's maximum; (B, G) arrays."""
    absent = weights <= 0
    lows = np.where(absent, -np.inf, means + stds * np.where(absent, 0.0, low))
    highs = np.where(absent, -np.inf, means + stds * np.where(absent, 0.0, high))
    lo = lows.max(axis=1)
    span = np.maximum(highs.max(axis=1) - lo, 0.0)

    offsets = span[:, None] * _POSITIONS
    x = lo[:, None] + offsets
    # A spread of zero makes Φ a step at the mean, which never lies above `lo`.
    safe = np.maximum(stds, 1e-12 * np.maximum(np.abs(lo)[:, None], 1e-300))
    distribution = np.ones_like(x)
    for g in range(means.shape[1]):
        # Where a group ends below `lo`, its factor is 1 on the whole range.
        active = np.flatnonzero(highs[:, g] > lo)
        if active.size:
            z = (x[active] - means[active, g, None]) / safe[active, g, None]
            distribution[active] *= ndtr(z) ** weights[active, g, None]
    area = span * (distribution @ _WEIGHTS)
    mean = lo + span - area
    second = span**2 - 2 * span * ((distribution * offsets) @ _WEIGHTS)
    variance = second - np.square(span - area)
    return mean, np.sqrt(np.maximum(variance, 0.0))


def sampled_maximum(
    means: FloatArray,
    stds: FloatArray,
    weights: NDArray[np.int64],
    *,
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Returns the mean and standard deviation of the maximum over drawn worker times.

    The sampler of Luo et al. 2022: `draws` iterations, in each of which every worker draws a time
    and the slowest counts.

    Args:
        means: (G,) mean of each group's workers.
        stds: (G,) standard deviation.
        weights: (G,) workers per group.
        draws: number of iterations to draw.
        rng: source of randomness.
    """
    slowest = np.full(draws, -np.inf)
    for mean, std, weight in zip(means, stds, weights, strict=True):
        # The maximum of w draws has the distribution function Φ^w: one uniform draw gives it.
        if weight > 0:
            uniform = rng.random(draws)
            np.maximum(slowest, mean + std * ndtri(uniform ** (1.0 / weight)), out=slowest)
    return float(slowest.mean()), float(slowest.std())
