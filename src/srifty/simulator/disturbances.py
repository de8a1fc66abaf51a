"""From a job and its configurations to what lost VMs do to each of them.

The hazard of a configuration is the sum over its VMs that can be taken away. How often that
happens is itself uncertain: one lognormal factor for all types, integrated by Gauss and Hermite's
rule, so that a rate that proves higher than thought does so for all VMs and for the whole job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.core.forecast import Interruptions
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.simulator.interruptions import ExtraTime, MixedLaw, best_interval_s, extra_time
from srifty.simulator.tables import ConfigTable, ForecastTable

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_S_PER_HOUR = 3600.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_SHARES: FloatArray = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Disturbances:
    """What lost VMs do to D of the R rows of a job table.

    Attributes:
        row: (D,) rows, ascending; the others lose no VM.
        law: (D,) law of their times.
        expected: (D,) losses that are to be expected.
        every: (R,) iterations between two checkpoints; more than the job has: none.
        interval_s: (D,) seconds between two checkpoints; infinite: none.
        unbilled_usd: (D,) expected dollars that lost VMs save while nobody stands in for them.
    """

    row: IntArray
    law: MixedLaw
    expected: FloatArray
    every: IntArray
    interval_s: FloatArray
    unbilled_usd: FloatArray

    def take(self, rows: IntArray, count: int) -> Disturbances:
        """Returns what is said of some rows of a table that has `count` rows."""
        position = np.full(count, -1, dtype=np.int64)
        position[self.row] = np.arange(len(self.row))
        own = position[rows]
        at = own[own >= 0]
        law = MixedLaw(
            self.law.none_probability[at],
            self.law.mean_s[at],
            self.law.std_s[at],
            self.law.late_mean_s[at],
            self.law.late_std_s[at],
            self.law.late_skew[at],
        )
        return Disturbances(
            np.flatnonzero(own >= 0),
            law,
            self.expected[at],
            self.every[rows],
            self.interval_s[at],
            self.unbilled_usd[at],
        )

    def of(self, row: int, mean_s: float, iterations: int) -> Interruptions | None:
        """Returns what is to be said of one row of a table, or None where nothing can be lost."""
        at = np.flatnonzero(self.row == row)
        if not at.size:
            return None
        index = int(at[0])
        every = int(self.every[row])
        saves = every <= iterations
        undisturbed_s = float(self.law.mean_s[index])
        return Interruptions(
            expected=float(self.expected[index]),
            none_probability=float(self.law.none_probability[index]),
            undisturbed_s=undisturbed_s,
            lost_s=mean_s - undisturbed_s,
            checkpoint_every=every if saves else None,
            checkpoint_interval_s=float(self.interval_s[index]) if saves else None,
        )


@dataclass(frozen=True)
class _Pace:
    """How D rows work through a job, without losses.

    Attributes:
        job: the job.
        iteration_s: (D,) seconds of an iteration, its share of the evaluations included.
        hazards: losses per second of all VMs, and with one missing.
        every: (D,) iterations between two checkpoints.
    """

    job: Job
    iteration_s: FloatArray
    hazards: _Hazards
    every: IntArray

    @property
    def billed_s(self) -> FloatArray:
        """(D,) seconds from running to stop."""
        count, overheads = self.job.iterations, self.job.overheads
        saves = count // self.every
        return overheads.setup_s + count * self.iteration_s + saves * overheads.checkpoint_s

    @property
    def extra(self) -> ExtraTime:
        """(5, D) what losses add; one during the first set-up only starts that anew."""
        overheads, count = self.job.overheads, self.job.iterations
        hazard, missing = self.hazards.whole, self.hazards.one_missing
        gone_s = overheads.detection_s + overheads.launch_s
        recovery_s = overheads.recovery_s
        waiting = (gone_s * missing + (recovery_s - gone_s) * hazard) / max(recovery_s, 1e-300)
        stretches = count // self.every
        stretch_s = np.minimum(self.every, count) * self.iteration_s + overheads.checkpoint_s
        rest_s = (count - stretches * self.every) * self.iteration_s
        setup_s = np.full_like(rest_s, overheads.setup_s)
        return (
            extra_time(hazard, setup_s, gone_s, missing)
            + extra_time(hazard, stretch_s, recovery_s, waiting).times(stretches.astype(float))
            + extra_time(hazard, rest_s, recovery_s, waiting)
        )

    @property
    def expected_s(self) -> FloatArray:
        """(D,) expected seconds from running to stop."""
        return self.billed_s + _SHARES @ self.extra.mean_s


@dataclass(frozen=True)
class _Hazards:
    """Losses of D rows, at the five nodes of how often they may come.

    Attributes:
        whole: (5, D) losses per second.
        one_missing: (5, D) losses per second while a lost VM is being replaced.
        lost_usd_per_hour: (5, D) price of the VM that is lost, on average.
    """

    whole: FloatArray
    one_missing: FloatArray
    lost_usd_per_hour: FloatArray

    @classmethod
    def of(cls, configs: ConfigTable) -> _Hazards:
        """Returns the hazards of all rows of a table."""
        offers = configs.offers
        of_vm = np.array([_hazards(offer) for offer in offers]).reshape(-1, len(_NODES))
        prices = np.array([offer.usd_per_hour for offer in offers])
        if not of_vm.any():
            none = np.zeros((len(_NODES), len(configs)))
            return cls(none, none, none)
        each = of_vm[configs.offer]
        by_group = configs.count[:, :, None] * each
        whole = by_group.sum(axis=1)
        some = np.maximum(whole, 1e-300)
        missing = whole - (by_group * each).sum(axis=1) / some
        usd = (by_group * prices[configs.offer][:, :, None]).sum(axis=1) / some
        return cls(whole.T, np.maximum(missing, 0.0).T, usd.T)

    def take(self, rows: IntArray) -> _Hazards:
        """Returns the hazards of some rows."""
        return _Hazards(
            self.whole[:, rows], self.one_missing[:, rows], self.lost_usd_per_hour[:, rows]
        )


def disturbances_of(
    job: Job, configs: ConfigTable, iterations: ForecastTable, undisturbed_std_s: FloatArray
) -> Disturbances:
    """Returns what lost VMs do to configurations, and how often each should save.

    Args:
        job: its overheads say how long a recovery takes and how checkpoints are made.
        configs: R configurations.
        iterations: their iteration forecasts.
        undisturbed_std_s: (R,) standard deviation of the job's time without losses.
    """
    hazards = _Hazards.of(configs)
    row = np.flatnonzero(hazards.whole.any(axis=0))
    hazards = hazards.take(row)
    count, overheads = job.iterations, job.overheads
    work_s = iterations.mean_s[row] + overheads.evaluations_s(count) / count
    pace = _paced(job, work_s, hazards)
    extra = pace.extra
    billed_s = pace.billed_s
    some = np.maximum(_SHARES @ -np.expm1(-hazards.whole * billed_s), 1e-300)
    mean_s = _SHARES @ extra.mean_s
    late_s = mean_s / some
    square = _SHARES @ (extra.variance_s2 + extra.mean_s**2)
    late_variance = np.maximum(square / some - late_s**2, 0.0)
    std_s = undisturbed_std_s[row]
    stretched_s = std_s * (1 + mean_s / np.maximum(billed_s, 1e-300))
    late_std_s = np.sqrt(stretched_s**2 + late_variance)
    third = 2 * late_variance**2 / np.maximum(late_s, 1e-300)
    started_s = overheads.launch_s + billed_s
    law = MixedLaw(
        1 - some,
        started_s,
        std_s,
        started_s + late_s,
        late_std_s,
        third / np.maximum(late_std_s**3, 1e-300),
    )
    gone_h = (overheads.detection_s + overheads.launch_s) / _S_PER_HOUR
    unbilled = gone_h * (_SHARES @ (hazards.lost_usd_per_hour * extra.losses))
    every = np.full(len(configs), _stated(job), dtype=np.int64)
    every[row] = pace.every
    return Disturbances(row, law, _SHARES @ extra.losses, every, pace.every * work_s, unbilled)


def _hazards(offer: Offer) -> FloatArray:
    """Returns (5,) losses of one VM per second, one for each node."""
    rate = offer.interruptions
    return rate.per_hour / _S_PER_HOUR * np.exp(rate.spread * _NODES)


def _stated(job: Job) -> int:
    """Returns the iterations between two checkpoints that the job states; else more than it has."""
    return job.overheads.checkpoint_every or job.iterations + 1


def _paced(job: Job, iteration_s: FloatArray, hazards: _Hazards) -> _Pace:
    """Returns how rows work through the job, with the best interval where it is to be chosen.

    Of the best interval of an endless job, in whole iterations, and no checkpoint at all, the
    better one is taken.
    """
    count, overheads = job.iterations, job.overheads
    every = np.full(len(iteration_s), _stated(job), dtype=np.int64)
    stated = _Pace(job, iteration_s, hazards, every)
    if not overheads.checkpoint_auto or not len(iteration_s):
        return stated
    ideal = best_interval_s(_SHARES @ hazards.whole, overheads.checkpoint_s) / iteration_s
    every = np.clip(np.round(ideal), 1, count + 1).astype(np.int64)
    saving = replace(stated, every=every)
    return replace(
        stated, every=np.where(saving.expected_s < stated.expected_s, every, stated.every)
    )
