"""Oracle BO (Luo et al. 2022, section 5.1): Bayesian optimisation that probes the truth itself.

As in Cherrypick (Alipourfard et al. 2017), a Gaussian process stands for the iteration time, and
the configuration of largest expected improvement, times the chance that the limits hold, is probed
next. A third of the configurations may be probed. The baseline knows configurations of one instance
type only: each type is searched by itself, and the probes are split equally among the types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from srifty.baselines.gaussian_process import GaussianProcess, expected_improvement
from srifty.baselines.point_forecasts import exact_forecasts
from srifty.core.job import Job, Objective
from srifty.simulator import ConfigTable, JobTable, forecast_jobs

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Truth = Callable[[ConfigTable], FloatArray]
"""Measures (R,) seconds of an iteration on R configurations."""

SHARE = 1 / 3
# Probes before the process is asked for the first time.
_FIRST = 3


@dataclass(frozen=True)
class Found:
    """What the search ended with.

    Attributes:
        row: the best configuration that was probed and keeps the limits; None where none does.
        iteration_s: seconds of its iteration as probed; 0 without one.
        probes: how many configurations were probed.
    """

    row: int | None
    iteration_s: float
    probes: int


def oracle_bo(job: Job, configs: ConfigTable, truth: Truth, *, seed: int = 0) -> Found:
    """Returns the best of the configurations that Bayesian optimisation probes.

    Args:
        job: gives the objective and the limits, which the probed mean must keep.
        configs: configurations of one instance type each.
        truth: what a probe measures.
        seed: of the first probes of each type.
    """
    kinds = [offer.instance_type for offer in configs.offers]
    distinct = list(dict.fromkeys(kinds))
    kind_of = np.array([distinct.index(kind) for kind in kinds] or [0])[configs.offer[:, 0]]
    present = [np.flatnonzero(kind_of == index) for index in range(len(distinct))]
    parts = [rows for rows in present if rows.size]
    if not parts:
        return Found(None, 0.0, 0)
    quota = max(int(len(configs) * SHARE) // len(parts), 1)
    rng = np.random.default_rng(seed)
    probed = [_search_type(job, configs, rows, truth, quota, rng) for rows in parts]
    rows = np.concatenate([rows for rows, _ in probed])
    times_s = np.concatenate([times_s for _, times_s in probed])
    best, _ = _best(job, configs.take(rows), times_s)
    if best is None:
        return Found(None, 0.0, len(rows))
    return Found(int(rows[best]), float(times_s[best]), len(rows))


def _search_type(
    job: Job,
    configs: ConfigTable,
    rows: IntArray,
    truth: Truth,
    quota: int,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Returns the probed rows of one type and what was measured there."""
    inputs = _inputs(configs.take(rows))
    order = rng.permutation(len(rows))[: min(_FIRST, quota)]
    times_s = truth(configs.take(rows[order]))
    while len(order) < min(quota, len(rows)):
        left = np.setdiff1d(np.arange(len(rows)), order)
        process = GaussianProcess.fit(inputs[order], np.log(times_s))
        _, best = _best(job, configs.take(rows[order]), times_s)
        mean, std = process.predict(inputs[left])
        worth = _worth(job, configs.take(rows[left]), mean, std, best)
        chosen = left[int(worth.argmax())]
        order = np.append(order, chosen)
        times_s = np.append(times_s, truth(configs.take(rows[[chosen]])))
    return rows[order], times_s


def _inputs(configs: ConfigTable) -> FloatArray:
    """Returns (R, 2) workers and price in [0, 1], by their logarithms where those differ."""
    columns = [np.log(configs.world_size), np.log1p(configs.usd_per_hour / configs.world_size)]
    spans = [max(float(np.ptp(column)), 1e-12) for column in columns]
    scaled = [(c - c.min()) / span for c, span in zip(columns, spans, strict=True)]
    return np.stack(scaled, axis=1)


def _worth(
    job: Job, configs: ConfigTable, log_mean: FloatArray, log_std: FloatArray, best: float
) -> FloatArray:
    """Returns (R,) how much a probe promises: improvement × chance that the limits hold.

    Before any probe keeps the limits, the chance alone counts.
    """
    mean_s = np.exp(log_mean)
    jobs = _jobs(job, configs, mean_s)
    beside_s = jobs.time_mean_s - job.iterations * mean_s
    limit_s = (jobs.time_limit_s - beside_s) / job.iterations
    spread = np.where(log_std > 0, log_std, 1e-12)
    with np.errstate(divide="ignore"):
        chance = ndtr((np.log(np.maximum(limit_s, 0.0)) - log_mean) / spread)
    if not np.isfinite(best):
        return chance
    value = np.log(_objective(job, jobs))
    # Job time and bill grow with the iteration as `beside_s` and the least bill let them.
    slope = job.iterations * mean_s / jobs.time_mean_s
    return chance * expected_improvement(value, slope * log_std, np.log(best))


def _best(job: Job, configs: ConfigTable, times_s: FloatArray) -> tuple[int | None, float]:
    """Returns the best row that keeps the limits and its objective; infinite without one."""
    jobs = _jobs(job, configs, times_s)
    value = np.where(jobs.time_mean_s <= jobs.time_limit_s, _objective(job, jobs), np.inf)
    row = int(value.argmin())
    return (row, float(value[row])) if np.isfinite(value[row]) else (None, np.inf)


def _jobs(job: Job, configs: ConfigTable, times_s: FloatArray) -> JobTable:
    return forecast_jobs(job, configs, exact_forecasts(times_s))


def _objective(job: Job, jobs: JobTable) -> FloatArray:
    """Returns (R,) what is minimised; above 0, so that it has a logarithm."""
    value = jobs.time_mean_s if job.objective is Objective.TIME else jobs.cost_mean_usd
    return np.maximum(value, 1e-12)
