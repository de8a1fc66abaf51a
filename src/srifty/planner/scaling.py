"""How one instance type alone would do the job, over the number of its VMs: the curve of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from srifty.core.cluster import ClusterConfig
from srifty.core.hardware import InstanceType
from srifty.core.job import BatchRule, Job, Objective
from srifty.core.offers import Offer
from srifty.planner.one_type import one_type_configs
from srifty.planner.supply import BatchRange, TypeSupply, places_of, supplies_of
from srifty.simulator import Predictor, forecast_jobs

_P90_STDS = float(ndtri(0.9))


@dataclass(frozen=True, slots=True)
class Band:
    """A quantity and where it lies eight times of ten.

    Attributes:
        mean: at the mean iteration time or job time.
        p10: 10th percentile.
        p90: 90th percentile; infinite where an iteration might take no time at all.
    """

    mean: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The best way to use so many VMs of a type.

    Attributes:
        config: what is rented.
        samples_per_s: throughput of one iteration.
        time_s: seconds from the command to the end.
        cost_usd: dollars of the whole run.
        success_probability: chance that deadline and budget both hold.
    """

    config: ClusterConfig
    samples_per_s: Band
    time_s: Band
    cost_usd: Band
    success_probability: float


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """One instance type alone.

    Attributes:
        instance_type: its name.
        points: in the order of their number of VMs, each number once.
    """

    instance_type: str
    points: tuple[ScalingPoint, ...]


def scaling_curves(
    job: Job,
    offers: Sequence[Offer],
    predictor: Predictor,
    batch_ranges: Mapping[str, BatchRange],
    kinds: Sequence[InstanceType],
    *,
    allow_cross_zone: bool = False,
) -> tuple[ScalingCurve, ...]:
    """Returns the curve of each instance type; types that cannot do the job alone are left out.

    Local batches are of any size: else most numbers of VMs would have no point.

    Args:
        job: what is trained; its limits say the odds, its objective which place and market count.
        offers: what can be rented.
        predictor: forecasts iterations.
        batch_ranges: micro-batch range by GPU model.
        kinds: which types, in the order of the answer.
        allow_cross_zone: whether one configuration may use several zones.
    """
    dealt = replace(job, batch_rule=BatchRule.ANY, accumulate=False)
    curves: list[ScalingCurve] = []
    for kind in dict.fromkeys(kinds):
        own = [offer for offer in offers if offer.instance_type == kind]
        places = [
            supplies
            for place in places_of(own, allow_cross_zone=allow_cross_zone)
            if (supplies := supplies_of(place, batch_ranges))
        ]
        points = _points(dealt, places, predictor)
        if points:
            curves.append(ScalingCurve(kind.name, points))
    return tuple(curves)


def _points(
    job: Job, places: Sequence[Sequence[TypeSupply]], predictor: Predictor
) -> tuple[ScalingPoint, ...]:
    configs = one_type_configs(job, places)
    if not len(configs):
        return ()
    iterations = predictor.predict(job, configs)
    jobs = forecast_jobs(job, configs, iterations)
    is_time = job.objective is Objective.TIME
    value = jobs.time_mean_s if is_time else jobs.cost_mean_usd
    vms = configs.count.sum(axis=1)
    best = [
        int(rows[np.argmin(value[rows])])
        for count in np.unique(vms)
        if (rows := np.flatnonzero(vms == count)).size
    ]
    early_s, late_s = jobs.time_quantile_s(0.1), jobs.time_quantile_s(0.9)
    low_usd, high_usd = jobs.cost_usd(early_s), jobs.cost_usd(late_s)
    spread_s = _P90_STDS * np.hypot(iterations.step_std_s, iterations.persistent_std_s)
    with np.errstate(divide="ignore"):
        fastest = job.global_batch / np.maximum(iterations.mean_s - spread_s, 0.0)
    slowest = job.global_batch / (iterations.mean_s + spread_s)
    return tuple(
        ScalingPoint(
            configs.config(row),
            Band(
                float(job.global_batch / iterations.mean_s[row]),
                float(slowest[row]),
                float(fastest[row]),
            ),
            Band(float(jobs.time_mean_s[row]), float(early_s[row]), float(late_s[row])),
            Band(float(jobs.cost_mean_usd[row]), float(low_usd[row]), float(high_usd[row])),
            float(jobs.success_probability[row]),
        )
        for row in best
    )
