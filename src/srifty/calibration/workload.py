"""Observed workloads: what they compute by themselves, and what they exchange."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from srifty.compute.evaluation import choose_probes
from srifty.compute.latency import LatencyModel
from srifty.core.hardware import InstanceType
from srifty.core.job import Job
from srifty.core.observation import Observation
from srifty.core.profile import BatchLatency, Gradient, GradientSchedule, WorkloadProfile
from srifty.units import MIB

# One-GPU rows that are used per workload and GPU: as many as a profile needs.
MOST_PROBES = 4
# Pieces of a gradient of which only the size is known: small against DDP's buckets of 25 MiB.
_PIECE_BYTES = 5 * MIB


@dataclass(frozen=True)
class ObservedWorkload:
    """One workload as its one-GPU rows and its gradients describe it.

    Attributes:
        name: the workload's name.
        job: what is exchanged in an iteration; its batch and length mean nothing.
        latency: latency models by GPU model.
        size_known: whether the gradients' size is known rather than guessed.
    """

    name: str
    job: Job
    latency: Mapping[str, LatencyModel]
    size_known: bool = True


def observed_workload(
    name: str,
    probes: Iterable[Observation],
    gradients: GradientSchedule,
    *,
    size_known: bool = True,
) -> ObservedWorkload | None:
    """Returns a workload from its one-GPU rows; None where there are none.

    Args:
        name: the workload's name; other rows are passed over.
        probes: observations; at most `MOST_PROBES` one-GPU rows of each GPU model are used, those
            nearest a geometric grid of batch sizes, repeats averaged; a pass of several counts as
            an iteration of its own.
        gradients: what one iteration exchanges.
        size_known: whether the gradients' size is known rather than guessed.
    """
    steps: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in probes:
        if row.workload == name and row.world_size == 1:
            steps[row.gpu][round(row.micro_batch)].append(row.step_s / row.accumulation)
    if not steps:
        return None
    profiles: list[WorkloadProfile] = []
    for gpu, by_batch in steps.items():
        batches = sorted(by_batch)
        if len(batches) > 1:
            count = min(MOST_PROBES, len(batches))
            batches = [int(batch) for batch in choose_probes(batches, count)]
        latencies = (BatchLatency(b, iteration_s=fmean(by_batch[b])) for b in batches)
        profiles.append(
            WorkloadProfile(
                name, gpu, tuple(latencies), max_batch=max(by_batch), gradients=gradients
            )
        )
    return ObservedWorkload(
        name,
        Job(name, tuple(profiles), global_batch=1, iterations=1),
        {profile.gpu: LatencyModel.fit(profile) for profile in profiles},
        size_known,
    )


def even_schedule(total_bytes: int) -> GradientSchedule:
    """Returns gradients of a given size that become ready evenly over the backward pass."""
    count = max(1, round(total_bytes / _PIECE_BYTES))
    least, extra = divmod(total_bytes, count)
    return GradientSchedule(
        tuple(
            Gradient(f"part {index + 1}", least + (index < extra), (index + 1) / count)
            for index in range(count)
        ),
        estimated=True,
    )


def usable(
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    instance_type: InstanceType,
) -> list[Observation]:
    """Returns the rows of one instance type with several workers whose computation is known."""
    return [
        row
        for row in observations
        if row.instance_type == instance_type.name
        and row.world_size > 1
        and row.workload in workloads
        and row.gpu in workloads[row.workload].latency
    ]
