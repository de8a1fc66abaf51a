"""From iterations to the whole job: time, money, and the chance that the limits hold.

    time = launch + set-up + N·t_iter + evaluations + checkpoints
    cost = Σ count·price·max(minimum, billed time) + N·(bytes that cross zones)·price
    Var(time) = N·σ_step² + N²·(σ_allocation² + σ_gpu² + σ_model²)

Billed is the time from running to stop, by the provider's rule (`BillingRule`). Only the noise from
step to step averages out over a job. Cost rises with time and with nothing else, so the limits hold
together exactly when the time stays below the smallest of the deadline, what the budget pays for,
and the end of any reservation that is used; quantiles are those of a normal.

VMs that the provider may take back make a job longer: then its time follows the law of
`simulator/interruptions.py`, never earlier than without losses. While a lost VM is being replaced
the others are paid for and it is not: that lowers the expected bill. Limits and quantiles count the
full price of the whole time, as nobody knows how much of a late end is waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from srifty.core.forecast import Distribution, IterationForecast, JobForecast
from srifty.core.job import Job
from srifty.simulator.disturbances import Disturbances, disturbances_of
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.transfers import schedule_profile

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_S_PER_HOUR = 3600.0
# Of the bill for the time that losses add: beyond it, all VMs would be missing all the time.
_MOST_UNBILLED = 0.999
_QUANTILES = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class JobTable:
    """A job on many configurations, one row each.

    Attributes:
        job: the job.
        time_mean_s: (R,) expected seconds from the command to the end.
        time_std_s: (R,) standard deviation.
        usd_per_hour: (R,) price of an hour, extras included.
        least_billed_s: (R,) seconds that are billed at least.
        fixed_usd: (R,) dollars that do not depend on the time: traffic between zones.
        available_s: (R,) seconds until a reservation that is used ends; infinite without one.
        time_limit_s: (R,) the time within which all limits hold; −inf where the budget does not
            even pay for the least bill.
        undisturbed_s: (R,) expected seconds if no VM is lost.
        unbilled_usd: (R,) dollars that lost VMs are expected to save while they are replaced.
        disturbances: what VMs that are taken away do.
    """

    job: Job
    time_mean_s: FloatArray
    time_std_s: FloatArray
    usd_per_hour: FloatArray
    least_billed_s: FloatArray
    fixed_usd: FloatArray
    available_s: FloatArray
    time_limit_s: FloatArray
    undisturbed_s: FloatArray
    unbilled_usd: FloatArray
    disturbances: Disturbances

    def __len__(self) -> int:
        return len(self.time_mean_s)

    def take(self, rows: slice | IntArray) -> JobTable:
        """Returns the table of some rows."""
        return JobTable(
            self.job,
            self.time_mean_s[rows],
            self.time_std_s[rows],
            self.usd_per_hour[rows],
            self.least_billed_s[rows],
            self.fixed_usd[rows],
            self.available_s[rows],
            self.time_limit_s[rows],
            self.undisturbed_s[rows],
            self.unbilled_usd[rows],
            self.disturbances.take(np.arange(len(self))[rows], len(self)),
        )

    def time_quantile_s(self, probability: float) -> FloatArray:
        """Returns (R,) the time that is kept with the given probability."""
        time_s = self.time_mean_s + float(ndtri(probability)) * self.time_std_s
        disturbed = self.disturbances
        if disturbed.row.size:
            time_s[disturbed.row] = disturbed.law.quantile_s(probability)
        return time_s

    def needed_time_s(self, confidence: float) -> FloatArray:
        """Returns (R,) the shortest deadline that is kept with a confidence; 0.5: the mean."""
        return self.time_mean_s if confidence == 0.5 else self.time_quantile_s(confidence)

    def cost_usd(self, time_s: FloatArray) -> FloatArray:
        """Returns (R,) the most a run of the given length costs, launch included in the length."""
        billed_s = np.maximum(time_s - self.job.overheads.launch_s, self.least_billed_s)
        return self.fixed_usd + self.usd_per_hour * billed_s / _S_PER_HOUR

    @property
    def cost_mean_usd(self) -> FloatArray:
        """(R,) expected bill."""
        return self.cost_usd(self.time_mean_s) - self.unbilled_usd

    @property
    def success_probability(self) -> FloatArray:
        """(R,) chance that both limits hold."""
        margin = self.time_limit_s - self.time_mean_s
        certain = np.where(margin >= 0, np.inf, -np.inf)
        spread = np.where(self.time_std_s > 0, self.time_std_s, 1.0)
        odds = ndtr(np.where(self.time_std_s > 0, margin / spread, certain))
        disturbed = self.disturbances
        if disturbed.row.size:
            odds[disturbed.row] = disturbed.law.probability(self.time_limit_s[disturbed.row])
        return odds

    def forecast(self, row: int, iteration: IterationForecast) -> JobForecast:
        """Returns one row for people."""
        one = self.take(slice(row, row + 1))
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
            traffic_usd=float(one.fixed_usd[0]),
            interruptions=one.disturbances.of(0, float(one.time_mean_s[0]), self.job.iterations),
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
    disturbed = disturbances_of(job, configs, iterations, std_s)
    row, law = disturbed.row, disturbed.law
    undisturbed_s = mean_s.copy()
    undisturbed_s[row] = law.mean_s
    mean_s[row], std_s[row] = law.total_mean_s, law.total_std_s
    usd_per_hour = configs.usd_per_hour + job.extra_usd_per_hour
    least_billed_s = _least(configs, [o.billing.minimum_s for o in configs.offers], largest=True)
    fixed_usd = count * cross_zone_usd(job, configs)
    added_s = np.maximum(mean_s - launch_s, least_billed_s)
    added_s -= np.maximum(undisturbed_s - launch_s, least_billed_s)
    unbilled_usd = np.zeros(len(configs))
    unbilled_usd[row] = disturbed.unbilled_usd
    most_usd = _MOST_UNBILLED * usd_per_hour * added_s / _S_PER_HOUR
    unbilled_usd = np.minimum(unbilled_usd, most_usd)
    if job.limits.budget_usd is None:
        affordable_s = np.full(len(configs), np.inf)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            paid_s = (job.limits.budget_usd - fixed_usd) * _S_PER_HOUR / usd_per_hour
        paid_s = np.where(usd_per_hour > 0, paid_s, np.where(fixed_usd > 0, paid_s, np.inf))
        affordable_s = np.where(paid_s >= least_billed_s, launch_s + paid_s, -np.inf)
    ends_s = [np.inf if o.ends_in_s is None else o.ends_in_s for o in configs.offers]
    available_s = _least(configs, ends_s)
    deadline_s = np.inf if job.limits.deadline_s is None else job.limits.deadline_s
    limit_s = np.minimum(affordable_s, np.minimum(available_s, deadline_s))
    return JobTable(
        job,
        mean_s,
        std_s,
        usd_per_hour,
        least_billed_s,
        fixed_usd,
        available_s,
        limit_s,
        undisturbed_s,
        unbilled_usd,
        disturbed,
    )


def _least(
    configs: ConfigTable, of_offers: Sequence[float], *, largest: bool = False
) -> FloatArray:
    """Returns (R,) the smallest (or largest) value among the offers that each row uses."""
    values = np.array(of_offers, dtype=np.float64)[configs.offer]
    if largest:
        return np.where(configs.count > 0, values, -np.inf).max(axis=1)
    return np.where(configs.count > 0, values, np.inf).min(axis=1)


def cross_zone_usd(job: Job, configs: ConfigTable) -> FloatArray:
    """Returns (R,) dollars that one iteration's bytes cost for crossing zones.

    A ring that visits one zone after the other crosses as many borders as there are zones (none for
    one zone); each rank sends `2 s (n−1) / n` bytes, so as much crosses each border. VMs that any
    zone of the region has join one of the others'.
    """
    profile = schedule_profile(job)
    if profile is None or profile.gradients is None:
        return np.zeros(len(configs))
    zones = [offer.location.zone for offer in configs.offers]
    distinct = [zone for zone in dict.fromkeys(zones) if zone is not None]
    if len(distinct) < 2:
        return np.zeros(len(configs))
    no_zone = len(distinct)
    zone_of = np.array([no_zone if z is None else distinct.index(z) for z in zones])[configs.offer]
    used = configs.count > 0
    borders = np.stack([(used & (zone_of == z)).any(axis=1) for z in range(no_zone)]).sum(axis=0)
    rate = _least(configs, [o.billing.cross_zone_usd_per_gb for o in configs.offers], largest=True)
    n = np.maximum(configs.world_size, 1)
    gigabytes = 2 * profile.gradients.total_bytes * (n - 1) / n / 1e9
    return np.where(borders > 1, borders * gigabytes * rate, 0.0)


def _normal(mean: float, std: float) -> Distribution:
    return Distribution(mean, std, *(mean + float(ndtri(p)) * std for p in _QUANTILES))
