"""Random small planning problems: curves, links, prices, quotas, limits and objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from srifty.allreduce import AlphaBetaModel
from srifty.compute.latency import LatencyModel
from srifty.core.allreduce import AllreduceSample
from srifty.core.hardware import InstanceType
from srifty.core.job import Job, Limits, Objective, Overheads
from srifty.core.offers import Location, Market, Offer
from srifty.core.profile import BatchLatency, Gradient, GradientSchedule, WorkloadProfile
from srifty.planner import BatchRange, TypeSupply, places_of, supplies_of
from srifty.simulator import ConfigTable, Simulator, forecast_jobs
from srifty.units import GIB

_BATCHES = (1, 4, 16, 64, 256)
_GLOBAL_BATCHES = (64, 96, 128, 256, 480, 512, 1024, 2112, 2048)


@dataclass(frozen=True)
class Problem:
    """A job with offers and models.

    Attributes:
        job: what is trained.
        offers: what can be rented, in one place.
        simulator: forecasts iterations.
        ranges: micro-batch range by GPU model.
    """

    job: Job
    offers: tuple[Offer, ...]
    simulator: Simulator
    ranges: dict[str, BatchRange]

    @property
    def places(self) -> list[tuple[TypeSupply, ...]]:
        """What can be had in each place."""
        return [supplies_of(p, self.ranges) for p in places_of(self.offers, allow_cross_zone=False)]


def random_problem(seed: int, most_types: int = 3) -> Problem:
    """Returns the problem of a seed: one to `most_types` types, half of them with tight limits."""
    rng = np.random.default_rng(seed)
    types = int(rng.integers(1, most_types + 1))
    gradient_bytes = int(10 ** rng.uniform(6.0, 8.7))
    gradients = GradientSchedule(
        tuple(Gradient(f"layer{i}", max(gradient_bytes // 12, 1), (i + 1) / 12) for i in range(12))
    )
    kinds = [
        InstanceType(f"t{t}.x", "aws", f"G{t}", int(2 ** rng.integers(0, 4)), 16 * GIB, 16, 10.0)
        for t in range(types)
    ]
    profiles: list[WorkloadProfile] = []
    offers: list[Offer] = []
    samples: list[AllreduceSample] = []
    for kind in kinds:
        per_sample_s = float(10 ** rng.uniform(-3.0, -1.7))
        step_s = float(10 ** rng.uniform(-2.3, -1.0)) + per_sample_s * np.array(_BATCHES)
        profiles.append(
            WorkloadProfile(
                "random",
                kind.gpu,
                tuple(
                    BatchLatency(b, forward_s=s / 3, backward_s=s * 2 / 3, optimizer_s=0.002)
                    for b, s in zip(_BATCHES, map(float, step_s), strict=True)
                ),
                max_batch=int(2 ** rng.integers(4, 10)),
                gradients=gradients,
            )
        )
        usd = kind.gpus * float(10 ** rng.uniform(-0.5, 0.3)) * 0.004 / per_sample_s
        quota = int(rng.integers(1, 17))
        offers.append(Offer(kind, Market.SPOT, Location("here"), usd, quota))
        if rng.random() < 0.3:
            offers.append(Offer(kind, Market.ON_DEMAND, Location("here"), 2.5 * usd, quota))
        rate = float(10 ** rng.uniform(-9.5, -8.7))
        samples += [
            AllreduceSample(kind.name, n, n * kind.gpus, size, 3e-5 * n + size * rate)
            for n in (2, 4)
            for size in (1_000, 1_000_000, 100_000_000)
        ]
    models = {profile.gpu: LatencyModel.fit(profile) for profile in profiles}
    job = Job(
        name=f"random {seed}",
        profiles=tuple(profiles),
        global_batch=int(rng.choice(_GLOBAL_BATCHES)),
        iterations=int(10 ** rng.uniform(2.5, 4.0)),
        objective=Objective.TIME if rng.random() < 0.5 else Objective.COST,
        limits=Limits(confidence=float(rng.choice([0.5, 0.9]))),
        overheads=Overheads(launch_s=100.0),
    )
    ranges = {
        gpu: BatchRange(model.min_batch, model.knee_batch, model.max_batch)
        for gpu, model in models.items()
    }
    return Problem(job, tuple(offers), Simulator(models, AlphaBetaModel().fit(samples)), ranges)


def with_tight_limits(problem: Problem, configs: ConfigTable, seed: int) -> Problem:
    """Returns the problem with a deadline and a budget near what one of its configurations needs.

    Args:
        problem: without limits.
        configs: its configurations, at least one.
        seed: of the configuration that is picked and of how tight the limits are.
    """
    rng = np.random.default_rng(seed)
    one = configs.take(np.array([int(rng.integers(len(configs)))]))
    jobs = forecast_jobs(problem.job, one, problem.simulator.predict(problem.job, one))
    factors = rng.uniform(0.7, 1.6, 2)
    limits = replace(
        problem.job.limits,
        deadline_s=float(jobs.time_mean_s[0] * factors[0]),
        budget_usd=float(jobs.cost_mean_usd[0] * factors[1]),
    )
    return replace(problem, job=replace(problem.job, limits=limits))
