"""Small offers, profiles, latency and allreduce models whose values are exact by construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from srifty.allreduce import Uncertainty
from srifty.compute.latency import LatencyModel
from srifty.compute.piecewise import PiecewiseLinear
from srifty.core import (
    BatchLatency,
    ClusterConfig,
    Gradient,
    GradientSchedule,
    GradientSync,
    InstanceType,
    Job,
    Limits,
    Location,
    Market,
    Offer,
    Overheads,
    Sharing,
    SyncMode,
    VmGroup,
    WorkloadProfile,
)
from srifty.units import GIB

PER_TENSOR = GradientSync(mode=SyncMode.PER_LAYER)
PAPER_SYNC = GradientSync(mode=SyncMode.PER_LAYER, sharing=Sharing.PAPER)


def make_type(
    name: str = "a1.small",
    gpu: str = "A",
    gpus: int = 1,
    vcpus: int = 8,
    rated_gbit_per_s: float = 100.0,
    nvlink: bool | None = None,
) -> InstanceType:
    return InstanceType(
        name, "aws", gpu, gpus, 16 * GIB, vcpus, rated_gbit_per_s, "intel", nvlink, "made up"
    )


def make_offer(
    instance_type: InstanceType | None = None,
    usd_per_hour: float = 1.0,
    market: Market = Market.ON_DEMAND,
    quota: int = 64,
) -> Offer:
    return Offer(
        instance_type or make_type(), market, Location("us-east-1"), usd_per_hour, quota, "made up"
    )


def make_config(*groups: tuple[Offer, int, int] | tuple[Offer, int, int, int]) -> ClusterConfig:
    """Groups of (offer, VMs, samples per VM[, accumulation]); all GPUs of a VM work."""
    return ClusterConfig(
        tuple(
            VmGroup(
                group[0],
                group[1],
                group[2],
                min(group[0].instance_type.gpus, group[2]),
                *group[3:],
            )
            for group in groups
        )
    )


def line(constant_s: float, per_sample_s: float) -> PiecewiseLinear:
    """The latency `constant_s + per_sample_s · batch`."""
    return PiecewiseLinear((1.0,), (constant_s + per_sample_s,), per_sample_s, per_sample_s)


def make_latency(
    gpu: str = "A",
    forward: tuple[float, float] = (0.010, 0.001),
    backward: tuple[float, float] = (0.020, 0.002),
    optimizer_s: float = 0.0,
    step_std: float = 0.0,
    spatial_std: float = 0.0,
    model_std: float = 0.0,
) -> LatencyModel:
    return LatencyModel(
        workload="toy",
        gpu=gpu,
        forward=line(*forward),
        backward=line(*backward),
        optimizer_s=optimizer_s,
        step_std_fraction=step_std,
        spatial_std_fraction=spatial_std,
        model_std_fraction=model_std,
        knee_batch=1,
        min_batch=1,
        max_batch=4096,
        estimated=False,
        assumptions=(),
    )


def make_schedule(gradients: Sequence[tuple[int, float]]) -> GradientSchedule:
    """Gradients of (bytes, ready fraction)."""
    return GradientSchedule(
        tuple(
            Gradient(f"tensor {index}", size, ready)
            for index, (size, ready) in enumerate(gradients)
        )
    )


def make_profile(
    gpu: str = "A",
    gradients: Sequence[tuple[int, float]] | None = ((1_000_000, 1.0),),
    input_samples_per_s_per_vcpu: float | None = None,
) -> WorkloadProfile:
    return WorkloadProfile(
        workload="toy",
        gpu=gpu,
        latencies=(BatchLatency(1, 0.011, 0.022), BatchLatency(2, 0.012, 0.024)),
        max_batch=4096,
        gradients=None if gradients is None else make_schedule(gradients),
        input_samples_per_s_per_vcpu=input_samples_per_s_per_vcpu,
    )


def with_ready_at(
    profile: WorkloadProfile, batches: Sequence[int], *, late: float = 0.5
) -> WorkloadProfile:
    """The profile with ready times that come later with the batch, each in its own way.

    At the first of the batches they are those of the profile; at the last one a gradient has lost
    between none and `late` of what is left of the backward pass.
    """
    schedule = profile.gradients
    assert schedule is not None
    gradients = tuple(
        replace(
            gradient,
            ready_at={
                batch: 1
                - (1 - gradient.ready) * (1 - late * step / len(batches) * (7 * at % 5) / 4)
                for step, batch in enumerate(batches)
            },
        )
        for at, gradient in enumerate(schedule.gradients)
    )
    return replace(profile, gradients=replace(schedule, gradients=gradients))


def make_job(
    *profiles: WorkloadProfile,
    sync: GradientSync | None = None,
    iterations: int = 1000,
    limits: Limits | None = None,
    overheads: Overheads | None = None,
    extra_usd_per_hour: float = 0.0,
) -> Job:
    return Job(
        name="toy job",
        profiles=profiles or (make_profile(),),
        global_batch=64,
        iterations=iterations,
        sync=sync or GradientSync(),
        limits=limits or Limits(),
        overheads=overheads or Overheads(),
        extra_usd_per_hour=extra_usd_per_hour,
    )


@dataclass(frozen=True)
class Link:
    """One instance type's network: `T(s) = alpha_s + per_rank_s · n + s / beta`."""

    alpha_s: float = 100e-6
    beta: float = 1e9
    per_rank_s: float = 0.0


@dataclass(frozen=True)
class LinearAllreduce:
    """An `AllreduceModel` that is exactly linear in the size.

    Attributes:
        link: the network of every type that `links` does not name.
        links: networks by instance type.
        capacity: bus bytes per second that transfers share; None: what `beta` amounts to.
    """

    link: Link = field(default_factory=Link)
    links: Mapping[str, Link] = field(default_factory=dict)
    capacity: float | None = None
    allocation_fraction: float = 0.0
    model_fraction: float = 0.0

    def _link(self, instance_type):
        return self.links.get(instance_type.name, self.link)

    def time_s(self, instance_type, world_size, vms, size_bytes):
        link = self._link(instance_type)
        n = np.asarray(world_size, dtype=np.float64)[:, None]
        time_s = link.alpha_s + link.per_rank_s * n + size_bytes[None, :] / link.beta
        return np.where(n > 1, time_s, 0.0)

    def bus_capacity(self, instance_type, world_size, vms):
        n = np.maximum(np.asarray(world_size, dtype=np.float64), 2.0)
        beta = self._link(instance_type).beta
        bus = 2 * (n - 1) / n * beta
        return bus if self.capacity is None else np.full(len(n), self.capacity)

    def uncertainty(self, instance_type, world_size, vms, size_bytes):
        rows = len(world_size)
        return Uncertainty(
            np.full(rows, self.allocation_fraction), np.full(rows, self.model_fraction)
        )

    def warnings(self, instance_type, world_size, vms, size_bytes):
        return ()

    def assumptions(self, instance_types):
        return tuple(f"Allreduce on {kind.name}: made up." for kind in instance_types)
