"""Forecasts of models that know no spread: the parts, and nothing but a mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srifty.simulator.tables import ForecastTable
from srifty.simulator.workers import WorkerGroups

FloatArray = NDArray[np.float64]


def slowest_worker(groups: WorkerGroups) -> tuple[FloatArray, FloatArray]:
    """Returns (R,) forward and (R,) backward of each row's slowest worker, all passes; seconds."""
    total_s = np.where(groups.workers > 0, groups.before_s + groups.backward_s, -np.inf)
    slowest = total_s.argmax(axis=1)
    rows = np.arange(len(total_s))
    forward_s = groups.forward_s[rows, slowest]
    return forward_s, total_s[rows, slowest] - forward_s


def point_forecasts(
    groups: WorkerGroups, exchange_s: FloatArray, *, hidden: bool = True
) -> ForecastTable:
    """Returns forecasts without any spread.

    Args:
        groups: the workers of R configurations.
        exchange_s: (R,) seconds of the whole exchange.
        hidden: whether computation hides the exchange, so that the longer of the two counts; else
            one follows the other.
    """
    forward_s, backward_s = slowest_worker(groups)
    optimizer_s = np.where(groups.workers > 0, groups.optimizer_s, 0.0).max(axis=1)
    compute_s = forward_s + backward_s + optimizer_s
    exposed_s = np.maximum(exchange_s - compute_s, 0.0) if hidden else exchange_s
    nothing = np.zeros(len(compute_s))
    return ForecastTable(
        mean_s=compute_s + exposed_s,
        step_std_s=nothing,
        allocation_std_s=nothing,
        gpu_std_s=nothing,
        model_std_s=nothing,
        forward_s=forward_s,
        backward_s=backward_s,
        exchange_s=exchange_s,
        exposed_exchange_s=exposed_s,
        optimizer_s=optimizer_s,
        input_s=nothing,
    )


def exact_forecasts(iteration_s: FloatArray) -> ForecastTable:
    """Returns forecasts of (R,) iterations of which nothing but the seconds is known."""
    nothing = np.zeros(len(iteration_s))
    return ForecastTable(iteration_s, *([nothing] * 10))
