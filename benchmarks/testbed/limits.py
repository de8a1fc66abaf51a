"""What no forecast can do better: runs on allocations that nobody has measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.testbed.predict import COMPUTE_ONLY
from benchmarks.testbed.results import Result
from benchmarks.testbed.variance import Variation

_DRAWS = 4000


@dataclass(frozen=True)
class Limit:
    """How a forecast does that knows the distributions which VMs and links are drawn from.

    Attributes:
        under: part of the runs that take longer than forecast.
        under_by_little: part of those that take at most a tenth longer.
    """

    under: float
    under_by_little: float


def limit_of(results: Sequence[Result], variation: Variation, *, quantile: float | None) -> Limit:
    """Returns what could be reached at best on the configurations of some results.

    The slowest GPU and the slowest link count: a run takes its computation times the largest of the
    GPUs' factors, and its exposed exchange over the smallest of the links'.

    Args:
        results: at least one; their forecasts say how much is computation and how much exchange.
        variation: what VMs and links were drawn from.
        quantile: which one is forecast; None: the mean.
    """
    rng = np.random.default_rng(0)
    under = little = 0.0
    for result in results:
        shape = (_DRAWS, result.world_size)
        gpus = rng.choice(np.array(variation.compute_between), shape).max(axis=1)
        links = rng.choice(np.array(variation.link_between), shape).min(axis=1)
        compute_s, exchange_s = result.forecast_s[COMPUTE_ONLY], result.exposed_s
        time_s = compute_s * gpus + exchange_s / links
        said_s = time_s.mean() if quantile is None else np.quantile(time_s, quantile)
        longer = time_s > said_s
        under += float(longer.mean())
        little += float((longer & (time_s <= 1.1 * said_s)).mean())
    return Limit(under / len(results), little / under if under else 1.0)
