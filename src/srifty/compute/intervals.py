"""How wide the interval of an estimate must be: conformal, from errors on GPUs left out.

`docs/estimates.md` has the coverage on public curves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srifty.core._checks import require

ONE_GPU_BASE = 0.18
"""Half width per unit of `1 + distance` where the curve of one other GPU is known."""

SEVERAL_GPUS_BASE = 0.19
"""The same where those of several are: the nearest one's distance counts."""

LAYERS_FRACTION = 0.56
"""Half width where there is no curve at all, only the work per layer."""

WIDEST_FRACTION = 0.95
"""A symmetric interval cannot reach beyond; nothing is known then but the order of magnitude."""


def conformal_fraction(
    scores: Sequence[float], weights: Sequence[float], *, coverage: float = 0.9
) -> float:
    """Returns the score that a new one stays below with at least `coverage`.

    The weighted quantile of split conformal prediction (Tibshirani et al. 2019), the largest weight
    added at infinity for the new point; the largest score where that infinity is the answer.

    Args:
        scores: errors of predictions of GPUs that were left out, not negative.
        weights: how much each counts, above zero.
        coverage: between 0 and 1.

    Raises:
        InputError: no scores, or as many weights as scores are not given.
    """
    require(bool(scores), "conformal_fraction needs at least one score")
    require(
        len(scores) == len(weights), f"{len(scores)} scores need as many weights: {len(weights)}"
    )
    order = np.argsort(scores)
    weight = np.asarray(weights, dtype=float)[order]
    share = np.cumsum(weight) / (weight.sum() + weight.max())
    at = min(int(np.searchsorted(share, coverage - 1e-12)), len(order) - 1)
    return float(np.asarray(scores, dtype=float)[order][at])


def scaled_fraction(
    nearest: float,
    gpus: int,
    *,
    one_gpu_base: float = ONE_GPU_BASE,
    several_gpus_base: float = SEVERAL_GPUS_BASE,
) -> float:
    """Returns the half width of the 90 % interval of a curve scaled from measured ones.

    Args:
        nearest: `distance` to the nearest measured GPU.
        gpus: how many GPUs were measured.
        one_gpu_base: see `ONE_GPU_BASE`.
        several_gpus_base: see `SEVERAL_GPUS_BASE`.
    """
    base = one_gpu_base if gpus == 1 else several_gpus_base
    return min(WIDEST_FRACTION, base * (1.0 + nearest))
