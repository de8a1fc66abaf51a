"""From observed iteration times to calibrated links, with an error that held-out rows support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.calibration.link import CalibratedAllreduce, CalibratedLink, LinkFactors
from srifty.calibration.posterior import LinkPrior, Posterior, most_probable
from srifty.calibration.rows import Rows, rows_of
from srifty.calibration.workload import ObservedWorkload, usable
from srifty.compute.latency import LatencyModel
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.core.offers import Location, Market, Offer
from srifty.errors import ModelError
from srifty.simulator.iteration import Simulator
from srifty.simulator.tables import ConfigTable, ForecastTable

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# The quantile that forecasts must hold, and where a normal has it.
_HELD = 0.9
_HELD_STDS = float(ndtri(_HELD))
# A link whose time is unknown by more than this is not known at all.
_MOST_FRACTION = 1.0


@dataclass(frozen=True)
class Calibration:
    """What observed iterations say of one instance type.

    Attributes:
        instance_type: the VM shape.
        factors: what the prior's transfer times are multiplied by.
        spread: between workers of one iteration, a fraction of the computation.
        effects: each observed workload's own factor, a logarithm.
        usual_effect: that of a workload which was not observed: the median.
        uncertainty: how far allreduce times can still be off.
        basis: what it rests on, a sentence.
    """

    instance_type: InstanceType
    factors: LinkFactors
    spread: float
    effects: Mapping[str, float]
    usual_effect: float
    uncertainty: Uncertainty
    basis: str

    def link(self, workload: str | None = None) -> CalibratedLink:
        """Returns the link as a workload meets it; None or a new one: as most do."""
        effect = self.effects.get(workload or "", self.usual_effect)
        return CalibratedLink(self.factors, effect, self.uncertainty, self.basis)

    def latency(self, model: LatencyModel) -> LatencyModel:
        """Returns a latency model with the observed spread between workers."""
        step = min(model.step_std_fraction, self.spread)
        spatial = float(np.sqrt(self.spread**2 - step**2))
        return replace(model, step_std_fraction=step, spatial_std_fraction=spatial)


def calibrated(
    prior: AllreduceModel, calibrations: Sequence[Calibration], workload: str | None = None
) -> CalibratedAllreduce:
    """Returns the prior, corrected by calibrations of some instance types.

    Args:
        prior: the model that the calibrations started from.
        calibrations: one per instance type.
        workload: whose iterations are forecast; None, or one that was not observed: any.
    """
    return CalibratedAllreduce(
        prior, {one.instance_type.name: one.link(workload) for one in calibrations}
    )


def calibrate(
    instance_type: InstanceType,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    link_prior: LinkPrior | None = None,
) -> Calibration:
    """Returns what observed iterations say of the links of one instance type.

    The remaining error is the smallest with which 9 of 10 rows stay below their forecast's P90,
    each workload forecast from the others (with one workload: each number of VMs from the others).

    Args:
        instance_type: the VM shape.
        observations: what was measured; rows of other types, with one worker, or of workloads
            whose computation is unknown are passed over.
        workloads: computation and gradients by name.
        prior: answers what an allreduce takes before anything was observed.
        link_prior: how far that is trusted; None: the usual.

    Raises:
        ModelError: no row has several VMs, or a workload's gradients are unknown.
    """
    used = usable(observations, workloads, instance_type)
    names = {row.workload for row in used}
    present = {name: workloads[name] for name in workloads if name in names}
    if not any(row.vms > 1 for row in used):
        raise ModelError(
            f"nothing was observed of {instance_type.name} with several VMs, of a workload that "
            "has one-GPU rows too: its links cannot be calibrated"
        )
    rows = rows_of(used, present, instance_type, prior)
    known = link_prior or LinkPrior()
    found = _calibration(instance_type, rows, present, known, _basis(instance_type, used))
    allocation = prior.uncertainty(instance_type).allocation_fraction
    without_error = replace(found, uncertainty=Uncertainty(allocation, 0.0))
    fraction = _error_fraction(without_error, used, rows, present, prior, known)
    if fraction is None:  # nothing to hold out
        return replace(found, uncertainty=prior.uncertainty(instance_type))
    return replace(found, uncertainty=Uncertainty(allocation, fraction))


def forecast_observed(
    observations: Sequence[Observation],
    workload: ObservedWorkload,
    calibration: Calibration,
    prior: AllreduceModel,
) -> ForecastTable:
    """Returns the simulator's forecasts of one workload's observed configurations.

    Args:
        observations: rows of that workload and of the calibration's instance type.
        workload: its computation and gradients.
        calibration: what was learned of the instance type.
        prior: the model that the calibration started from.
    """
    simulator = Simulator(
        {gpu: calibration.latency(model) for gpu, model in workload.latency.items()},
        calibrated(prior, [calibration], workload.name),
    )
    return simulator.predict(workload.job, observed_configs(observations, calibration.instance_type))


def observed_configs(
    observations: Sequence[Observation], instance_type: InstanceType
) -> ConfigTable:
    """Returns the cluster configurations of observations, in their order."""
    offers = {
        gpu: Offer(replace(instance_type, gpu=gpu), Market.OWNED, Location(""), 0.0, len(observations))
        for gpu in {row.gpu for row in observations}
    }
    return ConfigTable.from_configs(
        [
            ClusterConfig(
                tuple(
                    VmGroup(offers[row.gpu], row.gpus_used.count(gpus), gpus * row.local_batch, gpus)
                    for gpus in sorted(set(row.gpus_used), reverse=True)
                )
            )
            for row in observations
        ]
    )


def _calibration(
    kind: InstanceType,
    rows: Rows,
    workloads: Mapping[str, ObservedWorkload],
    link_prior: LinkPrior,
    basis: str,
) -> Calibration:
    """Returns the most probable calibration, its uncertainty left at nothing."""
    size_known = np.array([workload.size_known for workload in workloads.values()])
    found: Posterior = most_probable(rows, size_known, link_prior)
    seen = np.unique(rows.workload)
    names = list(workloads)
    return Calibration(
        kind,
        found.factors,
        found.spread,
        {names[int(index)]: float(found.effects[index]) for index in seen},
        float(np.median(found.effects[seen])),
        Uncertainty(0.0, 0.0),
        basis,
    )


def _error_fraction(
    whole: Calibration,
    observations: Sequence[Observation],
    rows: Rows,
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    link_prior: LinkPrior,
) -> float | None:
    """Returns the link's error by held-out groups; None where there is only one group."""
    vms = np.array([row.vms for row in observations])
    groups = rows.workload if len(np.unique(rows.workload)) > 1 else vms
    if len(np.unique(groups)) < 2:
        return None
    needed: list[FloatArray] = []
    weights: list[FloatArray] = []
    names = list(workloads)
    for group in np.unique(groups):
        out = groups == group
        if not (vms[~out] > 1).any():
            continue
        learned = _calibration(whole.instance_type, rows.take(~out), workloads, link_prior, "")
        for index in np.unique(rows.workload[out]):
            mine = out & (rows.workload == index) & (vms > 1)
            if not mine.any():
                continue
            held = [observations[int(place)] for place in np.flatnonzero(mine)]
            workload = workloads[names[int(index)]]
            needed.append(_needed_fraction(held, workload, whole, learned, prior))
            weights.append(np.full(len(held), 1 / len(held)))
    if not needed:
        return None
    return _quantile(np.concatenate(needed), np.concatenate(weights), _HELD)


def _needed_fraction(
    held: Sequence[Observation],
    workload: ObservedWorkload,
    whole: Calibration,
    learned: Calibration,
    prior: AllreduceModel,
) -> FloatArray:
    """Returns (R,) the link's error with which each row just stays below its forecast's P90."""
    exact, unsure = (
        forecast_observed(held, workload, replace(learned, uncertainty=uncertainty), prior)
        for uncertainty in (
            whole.uncertainty,
            replace(whole.uncertainty, model_fraction=1.0),
        )
    )
    measured_s = np.array([row.step_s for row in held])
    variance = np.square(np.maximum(measured_s - exact.mean_s, 0.0) / _HELD_STDS)
    lacking = np.maximum(variance - np.square(exact.persistent_std_s), 0.0)
    per_fraction = np.square(unsure.persistent_std_s) - np.square(exact.persistent_std_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.sqrt(lacking / per_fraction)
    return np.where(lacking > 0, fraction, 0.0)


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """Returns the smallest value that a share of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    place = int(np.searchsorted(reached, share))
    return min(float(values[order][min(place, len(values) - 1)]), _MOST_FRACTION)


def _basis(kind: InstanceType, used: Sequence[Observation]) -> str:
    vms = sorted({row.vms for row in used})
    span = f"{vms[0]} VM" if vms == [1] else f"{vms[0]} to {vms[-1]} VMs"
    if len(vms) == 1:
        span = f"{vms[0]} VMs"
    count = len({row.workload for row in used})
    return (
        f"Allreduce on {kind.name}: the between-VM link is calibrated from {len(used):,} observed "
        f"iteration times ({span}, {count} workload{'s' if count > 1 else ''})."
    )
