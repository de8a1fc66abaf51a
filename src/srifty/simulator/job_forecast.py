"""From iterations to the whole job: time, money, and the chance that the limits hold.

    time = launch + set-up + N·t_iter + evaluations + checkpoints
    cost = Σ count·price·max(60 s, billed time)          billed: from running to stop, per second
    Var(time) = N·σ_step² + N²·(σ_allocation² + σ_gpu² + σ_model²)

Only the noise from step to step averages out over a job. Cost rises with time and with nothing
else, so the limits hold together exactly when the time stays below the smaller of the deadline and
what the budget pays for; quantiles are those of a normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from srifty.core.forecast import Distribution, IterationForecast, JobForecast
from srifty.core.job import Job, Limits
from srifty.simulator.tables import ConfigTable, ForecastTable

FloatArray = NDArray[np.float64]

_LEAST_BILLED_S = 60.0
_S_PER_HOUR = 3600.0
_QUANTILES = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class JobTable:
    """A job on many configurations, one row each.

    Attributes:
        launch_s: seconds before the first VM is billed.
        time_mean_s: (R,) expected seconds from the command to the end.
        time_std_s: (R,) standard deviation.
        usd_per_hour: (R,) price of an hour, extras included.
        time_limit_s: (R,) the time within which both limits hold; below 0 where the budget does not
            even pay for the least billed time.
    """

    launch_s: float
    time_mean_s: FloatArray
    time_std_s: FloatArray
    usd_per_hour: FloatArray
    time_limit_s: FloatArray

    def __len__(self) -> int:
        return len(self.time_mean_s)

    def time_quantile_s(self, probability: float) -> FloatArray:
        """Returns (R,) the time that is kept with the given probability."""
        return self.time_mean_s + float(ndtri(probability)) * self.time_std_s

    def cost_usd(self, time_s: FloatArray) -> FloatArray:
        """Returns (R,) the bill of a run of the given length, launch included in the length."""
        billed_s = np.maximum(time_s - self.launch_s, _LEAST_BILLED_S)
        return self.usd_per_hour * billed_s / _S_PER_HOUR

    @property
    def cost_mean_usd(self) -> FloatArray:
        """(R,) expected bill."""
        return self.cost_usd(self.time_mean_s)

    @property
    def success_probability(self) -> FloatArray:
        """(R,) chance that both limits hold."""
        margin = self.time_limit_s - self.time_mean_s
        certain = np.where(margin >= 0, np.inf, -np.inf)
        spread = np.where(self.time_std_s > 0, self.time_std_s, 1.0)
        return ndtr(np.where(self.time_std_s > 0, margin / spread, certain))

    def forecast(self, row: int, iteration: IterationForecast) -> JobForecast:
        """Returns one row for people."""
        one = JobTable(
            self.launch_s,
            self.time_mean_s[row : row + 1],
            self.time_std_s[row : row + 1],
            self.usd_per_hour[row : row + 1],
            self.time_limit_s[row : row + 1],
        )
        times = [one.time_quantile_s(probability) for probability in _QUANTILES]
        costs = [one.cost_usd(time_s) for time_s in times]
        iteration_std_s = float(np.hypot(iteration.step_std_s, iteration.persistent_std_s))
        return JobForecast(
            iteration=iteration,
            iteration_s=_normal(iteration.mean_s, iteration_std_s),
            time_s=Distribution(
                float(one.time_mean_s[0]), float(one.time_std_s[0]), *(float(t[0]) for t in times)
            ),
            cost_usd=Distribution(
                float(one.cost_mean_usd[0]),
                float(one.time_std_s[0] * one.usd_per_hour[0] / _S_PER_HOUR),
                *(float(c[0]) for c in costs),
            ),
            success_probability=float(one.success_probability[0]),
        )


def forecast_jobs(job: Job, configs: ConfigTable, iterations: ForecastTable) -> JobTable:
    """Returns the job forecasts of many configurations.

    Args:
        job: number of iterations, overheads, limits.
        configs: R configurations.
        iterations: their R iteration forecasts.
    """
    count = job.iterations
    launch_s = job.overheads.launch_s
    mean_s = launch_s + job.overheads.billed_s(count) + count * iterations.mean_s
    std_s = np.sqrt(
        count * np.square(iterations.step_std_s) + np.square(count * iterations.persistent_std_s)
    )
    usd_per_hour = configs.usd_per_hour + job.extra_usd_per_hour
    limit_s = time_limit_s(job.limits, launch_s, usd_per_hour)
    return JobTable(launch_s, mean_s, std_s, usd_per_hour, limit_s)


def time_limit_s(limits: Limits, launch_s: float, usd_per_hour: FloatArray) -> FloatArray:
    """Returns (R,) the longest time that keeps the deadline and the budget; −inf if none does."""
    deadline_s = np.inf if limits.deadline_s is None else limits.deadline_s
    if limits.budget_usd is None:
        return np.full(len(usd_per_hour), deadline_s)
    with np.errstate(divide="ignore"):
        paid_s = limits.budget_usd * _S_PER_HOUR / usd_per_hour
    affordable_s = np.where(paid_s >= _LEAST_BILLED_S, launch_s + paid_s, -np.inf)
    return np.minimum(deadline_s, affordable_s)


def _normal(mean: float, std: float) -> Distribution:
    return Distribution(mean, std, *(mean + float(ndtri(p)) * std for p in _QUANTILES))
