"""A small market and a small job for the planner's tests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from srifty.allreduce import AlphaBetaModel
from srifty.compute.latency import LatencyModel
from srifty.core import (
    AllreduceSample,
    BatchLatency,
    Gradient,
    GradientSchedule,
    InstanceType,
    Job,
    Limits,
    Location,
    Market,
    Objective,
    Offer,
    Overheads,
    WorkloadProfile,
)
from srifty.core.job import BatchRule
from srifty.planner import BatchRange, plan
from srifty.simulator import Simulator
from srifty.units import GIB

_GRADIENTS = GradientSchedule(
    tuple(Gradient(f"layer{i}", 4_000_000, (i + 1) / 10) for i in range(10))
)


def make_type(name: str, gpu: str, gpus: int) -> InstanceType:
    return InstanceType(name, "aws", gpu, gpus, 16 * GIB, 8 * gpus, 10.0)


def make_profile(
    gpu: str, per_sample_s: float, fixed_s: float, max_batch: int, min_batch: int = 1
) -> WorkloadProfile:
    latencies = tuple(
        BatchLatency(
            b,
            forward_s=(fixed_s + per_sample_s * b) / 3,
            backward_s=(fixed_s + per_sample_s * b) * 2 / 3,
            optimizer_s=0.001,
        )
        for b in (1, 8, 64, 512)
    )
    return WorkloadProfile(
        "toy", gpu, latencies, max_batch, _GRADIENTS, min_batch=min_batch, source="made up"
    )


@dataclass(frozen=True)
class Market3:
    """Three types: a slow cheap one, a fast dear one, and one with two GPUs."""

    profiles: tuple[WorkloadProfile, ...]
    offers: tuple[Offer, ...]
    simulator: Simulator
    ranges: dict[str, BatchRange]

    def job(self, global_batch: int, **changes: object) -> Job:
        fields: dict[str, object] = {
            "name": "toy",
            "profiles": self.profiles,
            "global_batch": global_batch,
            "iterations": 1000,
            "objective": Objective.COST,
            "limits": Limits(),
            "overheads": Overheads(launch_s=100.0),
        }
        return Job(**(fields | changes))  # type: ignore[arg-type]

    def plan(self, job: Job, offers: tuple[Offer, ...] | None = None):
        return plan(job, offers or self.offers, self.simulator, self.ranges)


def make_market(quotas: tuple[int, int, int] = (4, 2, 3), max_batches=(32, 64, 16)) -> Market3:
    region = Location("us-east-1")
    slow = make_type("slow.1x", "Slow", 1)
    fast = make_type("fast.4x", "Fast", 4)
    twin = make_type("twin.2x", "Twin", 2)
    offers = (
        Offer(slow, Market.SPOT, region, 0.5, quotas[0]),
        Offer(fast, Market.ON_DEMAND, region, 9.0, quotas[1]),
        Offer(twin, Market.SPOT, region, 1.1, quotas[2]),
        Offer(twin, Market.ON_DEMAND, region, 2.0, quotas[2]),
    )
    profiles = (
        make_profile("Slow", 0.010, 0.02, max_batches[0]),
        make_profile("Fast", 0.002, 0.01, max_batches[1]),
        make_profile("Twin", 0.008, 0.02, max_batches[2], min_batch=2),
    )
    models = {p.gpu: LatencyModel.fit(p) for p in profiles}
    samples = [
        AllreduceSample(kind.name, n, n, size, 1e-4 * n + size * rate, transport="tcp")
        for kind, rate in ((slow, 2e-9), (fast, 0.5e-9), (twin, 1e-9))
        for n in (2, 4)
        for size in (1_000, 1_000_000, 100_000_000)
    ]
    ranges = {gpu: BatchRange(m.min_batch, m.knee_batch, m.max_batch) for gpu, m in models.items()}
    return Market3(profiles, offers, Simulator(models, AlphaBetaModel().fit(samples)), ranges)


@pytest.fixture(scope="session")
def market() -> Market3:
    return make_market()


__all__ = ["BatchRule", "Market3", "make_market", "make_profile", "make_type"]
