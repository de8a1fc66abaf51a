"""Observed iterations as arrays: all that an iteration time depends on but the link.

With equal workers the simulator's iteration is

    t = max(C, max_k (r_k + Σ_{j≥k} T(s_j))) + t_opt,   C = c (1 + h) (1 + σ m(n)),  r_k likewise

where c is one worker's computation in all its passes (transfers start in the last one), h by how
much it is slower beside others, m(n) the expected maximum of n standard normals, σ the spread
between workers, and T an allreduce's latency plus its transfer time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.link import factor_features, latency_s
from srifty.calibration.workload import ObservedWorkload
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.errors import ModelError
from srifty.simulator.stragglers import expected_maximum
from srifty.simulator.transfers import job_transfers

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A spread at which the maximum of normals around 1 is computed; it is proportional to the spread.
_SPREAD = 0.05


@dataclass(frozen=True)
class Rows:
    """R observations of one instance type.

    Attributes:
        measured_s: (R,) mean iteration time.
        workload: (R,) index of the workload.
        compute_s: (R,) forward and backward of one worker, all passes.
        optimizer_s: (R,) optimizer step.
        slowest: (R,) spreads by which the slowest worker exceeds the mean.
        ready_s: (R, K) when each transfer is ready on one worker; 0 where there is none.
        latency_s: (R, K) latencies of that transfer and all later ones.
        transfer_s: (R, K) the prior's transfer time of that transfer and all later ones.
        features: (R, P) what the link's factors are multiplied by.
    """

    measured_s: FloatArray
    workload: IntArray
    compute_s: FloatArray
    optimizer_s: FloatArray
    slowest: FloatArray
    ready_s: FloatArray
    latency_s: FloatArray
    transfer_s: FloatArray
    features: FloatArray

    def __len__(self) -> int:
        return len(self.measured_s)

    def take(self, rows: NDArray[np.bool_]) -> Rows:
        """Returns some rows."""
        return Rows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def rows_of(
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    instance_type: InstanceType,
    prior: AllreduceModel,
) -> Rows:
    """Returns the rows of one instance type, in the order of the observations.

    Args:
        observations: at least one, all with several workers.
        workloads: all that occur, by name; a row's workload is its place among them.
        instance_type: the VM shape.
        prior: answers what an allreduce takes before anything was observed.

    Raises:
        ModelError: a workload's gradients are unknown.
    """
    names = list(workloads)
    world = np.array([row.world_size for row in observations], dtype=np.int64)
    vms = np.array([row.vms for row in observations], dtype=np.int64)
    batch = np.array([row.micro_batch for row in observations])
    passes = np.array([row.accumulation for row in observations], dtype=np.float64)
    workload = np.array([names.index(row.workload) for row in observations], dtype=np.int64)
    gpus = np.array([row.gpu for row in observations])
    transfers = {name: job_transfers(workloads[name].job) for name in names}
    most = max((len(t) for t in transfers.values() if t is not None), default=0)
    compute_s, optimizer_s = np.zeros(len(batch)), np.zeros(len(batch))
    ready_s, late_s, transfer_s = (np.zeros((len(batch), most)) for _ in range(3))
    for index, name in enumerate(names):
        sent = transfers[name]
        if sent is None:
            raise ModelError(f"the gradients of {name} are not known")
        for gpu, model in workloads[name].latency.items():
            here = np.flatnonzero((workload == index) & (gpus == gpu))
            if not here.size:
                continue
            forward_s = model.forward.predict(batch[here])
            backward_s = model.backward.predict(batch[here])
            compute_s[here] = passes[here] * (forward_s + backward_s)
            optimizer_s[here] = model.optimizer_s
            latency = latency_s(prior, instance_type, world[here], vms[here])
            alone_s = prior.time_s(instance_type, world[here], vms[here], sent.sizes_bytes)
            span = slice(0, len(sent))
            fractions = sent.ready_at(gpu, batch[here].astype(np.int64))
            # From the end of the last pass backwards.
            ready_s[here, span] = compute_s[here, None] - (1 - fractions) * backward_s[:, None]
            late_s[here, span] = latency * np.arange(len(sent), 0, -1)
            transfer_s[here, span] = _and_later(np.maximum(alone_s - latency, 0.0))
    return Rows(
        measured_s=np.array([row.step_s for row in observations]),
        workload=workload,
        compute_s=compute_s,
        optimizer_s=optimizer_s,
        slowest=_slowest(world),
        ready_s=ready_s,
        latency_s=late_s,
        transfer_s=transfer_s,
        features=factor_features(world, vms),
    )


def _and_later(values: FloatArray) -> FloatArray:
    """Returns (R, K) sums of each value and all later ones of its row."""
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]


def _slowest(world_size: IntArray) -> FloatArray:
    """Returns (R,) the expected maximum of n standard normals."""
    sizes, place = np.unique(world_size, return_inverse=True)
    ones = np.ones((len(sizes), 1))
    mean, _ = expected_maximum(ones, ones * _SPREAD, sizes[:, None].astype(np.float64))
    return ((mean - 1.0) / _SPREAD)[place]
