"""From observed iteration times to the links of an instance type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.calibrated import Calibration, RemainingError, Traits
from srifty.calibration.posterior import LinkPrior, most_probable
from srifty.calibration.remaining_error import remaining_error
from srifty.calibration.rows import Rows, rows_of
from srifty.calibration.workload import ObservedWorkload, usable
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.errors import ModelError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def calibrate(
    instance_type: InstanceType,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    link_prior: LinkPrior | None = None,
) -> Calibration:
    """Returns what observed iterations say of the links of one instance type.

    The remaining error comes from rows that were left out: for a new workload, each workload is
    forecast from the others; for an observed one, each workload's rows of one number of VMs from
    all others.

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
    known = _known(instance_type, observations, workloads, prior, link_prior)
    used = known.observations

    def remaining(groups: IntArray) -> RemainingError | None:
        return remaining_error(groups, known.learn, used, known.workloads, prior)

    workload = known.rows.workload
    vms = np.array([row.vms for row in used], dtype=np.int64)
    # What cannot be checked is not known better than before.
    return replace(
        known.learn(),
        seen_error=remaining(workload * (1 + vms.max()) + vms) or RemainingError(),
        new_error=remaining(workload) or RemainingError(),
    )


def most_probable_calibration(
    instance_type: InstanceType,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
) -> Calibration:
    """Returns what `calibrate` does, its remaining errors left open: a fraction of the work.

    Raises:
        ModelError: no row has several VMs, or a workload's gradients are unknown.
    """
    return _known(instance_type, observations, workloads, prior, None).learn()


@dataclass(frozen=True)
class _Known:
    """What a calibration of one instance type rests on."""

    instance_type: InstanceType
    observations: Sequence[Observation]
    workloads: Mapping[str, ObservedWorkload]
    rows: Rows
    link_prior: LinkPrior

    def learn(self, marked: BoolArray | None = None) -> Calibration:
        """Returns the most probable calibration by some observations; None: by all."""
        rows = self.rows if marked is None else self.rows.take(marked)
        basis = _basis(self.instance_type, self.observations)
        return _learn(self.instance_type, rows, self.workloads, self.link_prior, basis)


def _known(
    instance_type: InstanceType,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    link_prior: LinkPrior | None,
) -> _Known:
    used = usable(observations, workloads, instance_type)
    names = {row.workload for row in used}
    present = {name: workloads[name] for name in workloads if name in names}
    if not any(row.vms > 1 for row in used):
        raise ModelError(
            f"nothing was observed of {instance_type.name} with several VMs, of a workload that "
            "has one-GPU rows too: its links cannot be calibrated"
        )
    rows = rows_of(used, present, instance_type, prior)
    return _Known(instance_type, used, present, rows, link_prior or LinkPrior())


def _learn(
    kind: InstanceType,
    rows: Rows,
    workloads: Mapping[str, ObservedWorkload],
    link_prior: LinkPrior,
    basis: str,
) -> Calibration:
    """Returns the most probable calibration, its errors left open."""
    size_known = np.array([workload.size_known for workload in workloads.values()])
    found = most_probable(rows, size_known, link_prior)
    names = list(workloads)
    traits = {
        names[int(index)]: Traits(
            float(found.effects[index]), float(found.slowdowns[index]), found.covariances[index]
        )
        for index in np.unique(rows.workload)
    }
    return Calibration(
        instance_type=kind,
        factors=found.factors,
        spread=found.spread,
        traits=traits,
        usual=Traits(
            median(one.effect for one in traits.values()),
            median(one.slowdown for one in traits.values()),
            found.covariances[-1],
        ),
        seen_error=RemainingError(),
        new_error=RemainingError(),
        basis=basis,
    )


def _basis(kind: InstanceType, used: Sequence[Observation]) -> str:
    several = sorted({row.vms for row in used if row.vms > 1})
    span = f"{several[0]} VMs" if len(several) == 1 else f"{several[0]} to {several[-1]} VMs"
    workloads = len({row.workload for row in used})
    times = sum(row.vms > 1 for row in used)
    return (
        f"Allreduce on {kind.name}: the between-VM link is calibrated from {times:,} observed "
        f"iteration time{'s' if times > 1 else ''} ({span}, {workloads} "
        f"workload{'s' if workloads > 1 else ''})."
    )
