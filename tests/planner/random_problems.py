"""Small random planning problems, and every configuration of them by plain loops."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from srifty.allreduce import AlphaBetaModel
from srifty.allreduce.base import Uncertainty
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
from srifty.core.job import BatchRule, GradientSync, Sharing, SyncMode
from srifty.core.offers import QuotaPool
from srifty.planner import BatchRange
from srifty.simulator import ConfigTable, Simulator, forecast_jobs
from srifty.units import GIB


class WobblyAllreduce:
    """Times that neither grow with the world nor know a bound: each world has its own factor."""

    def __init__(self, prior: AlphaBetaModel, seed: int) -> None:
        self._prior = prior
        self._factor = np.random.default_rng(seed).uniform(0.3, 2.0, 512)

    def time_s(self, instance_type, world_size, vms, size_bytes):
        factor = self._factor[(7 * world_size + 3 * vms) % 512]
        return self._prior.time_s(instance_type, world_size, vms, size_bytes) * factor[:, None]

    def bus_capacity(self, instance_type, world_size, vms):
        return self._prior.bus_capacity(instance_type, world_size, vms)

    def uncertainty(self, instance_type, world_size, vms, size_bytes):
        rows = len(world_size)
        return Uncertainty(np.full(rows, 0.1), self._factor[world_size % 512] / 10)

    def assumptions(self, instance_types):
        return ()

    def warnings(self, instance_type, world_size, vms, size_bytes):
        return ()


@dataclass(frozen=True)
class Problem:
    """What the planner is asked, and what it answers with."""

    job: Job
    offers: tuple[Offer, ...]
    simulator: Simulator
    ranges: dict[str, BatchRange]


def random_problem(seed: int) -> Problem:
    """Returns a problem with random curves, prices, quotas and limits."""
    rng = random.Random(seed)
    types, samples = [], []
    gradients = GradientSchedule(
        tuple(Gradient(f"layer{i}", 4 * rng.randint(1, 4_000_000), (i + 1) / 8) for i in range(8))
    )
    for index in range(rng.randint(1, 4)):
        gpu = f"Gpu{rng.randint(0, 2)}"
        gpus = rng.choice([1, 1, 2, 4])
        kind = InstanceType(f"t{index}.{gpus}x", "aws", gpu, gpus, 16 * GIB, 8 * gpus, 10.0)
        types.append(kind)
        latency, byte_s = rng.uniform(2e-5, 4e-4), rng.uniform(0.1e-9, 4e-9)
        samples += [
            AllreduceSample(kind.name, n, n, size, latency * n + size * byte_s, transport="tcp")
            for n in (2, 4)
            for size in (1_000, 1_000_000, 100_000_000)
        ]
    gpus = dict.fromkeys(kind.gpu for kind in types)
    profiles = [_random_profile(rng, gpu, gradients) for gpu in gpus]
    models = {profile.gpu: LatencyModel.fit(profile) for profile in profiles}
    allreduce = AlphaBetaModel().fit(samples)
    if rng.random() < 0.3:
        allreduce = WobblyAllreduce(allreduce, seed)
    deadline = rng.choice([None, None, rng.uniform(110, 1500)])
    budget = rng.choice([None, None, 10 ** rng.uniform(-2, 1)])
    job = Job(
        "random",
        tuple(profiles),
        rng.choice([rng.randint(1, 96), 2 ** rng.randint(2, 7)]),
        rng.choice([20, 400, 1000]),
        rng.choice(list(Objective)),
        Limits(deadline, budget, rng.choice([0.5, 0.9, 0.99])),
        Overheads(launch_s=100.0, setup_s=rng.choice([0.0, 20.0])),
        rng.choice(
            [
                GradientSync(),
                GradientSync(),
                GradientSync(slots=2),
                GradientSync(SyncMode.PER_LAYER),
                GradientSync(SyncMode.PER_LAYER, sharing=Sharing.PAPER),
            ]
        ),
        rng.choice(list(BatchRule)),
        rng.choice([0.0, 0.5]),
        accumulate=rng.random() < 0.15,
    )
    ranges = {gpu: BatchRange(m.min_batch, m.knee_batch, m.max_batch) for gpu, m in models.items()}
    return Problem(job, _random_offers(rng, types), Simulator(models, allreduce), ranges)


def _random_profile(rng: random.Random, gpu: str, gradients: GradientSchedule) -> WorkloadProfile:
    per_sample, fixed = 10 ** rng.uniform(-3, -1.5), 10 ** rng.uniform(-3, -1)
    bend = rng.uniform(0.6, 1.6)
    latencies = tuple(
        BatchLatency(
            batch,
            forward_s=(fixed + per_sample * batch * (bend if batch > 8 else 1)) / 3,
            backward_s=(fixed + per_sample * batch * (bend if batch > 16 else 1)) * 2 / 3,
            optimizer_s=rng.choice([0.0, 0.004]),
            std_s=rng.choice([0.0, 0.03]) * (fixed + per_sample * batch),
        )
        for batch in (1, 4, 16, 64)
    )
    return WorkloadProfile(
        "random",
        gpu,
        latencies,
        rng.choice([3, 8, 16, 24, 48]),
        gradients,
        min_batch=rng.choice([1, 1, 2]),
        spatial_std_fraction=rng.choice([0.0, 0.02]),
        interval_fraction=rng.choice([None, 0.3]),
        input_samples_per_s_per_vcpu=rng.choice([None, None, 10 ** rng.uniform(0.5, 2)]),
        source="random",
    )


def _random_offers(rng: random.Random, types: Sequence[InstanceType]) -> tuple[Offer, ...]:
    zones = rng.choice([(None,), (None,), ("a", "b")])
    pool = QuotaPool("shared", rng.choice([8, 16, 32, 64])) if rng.random() < 0.3 else None
    offers: list[Offer] = []
    for kind in types:
        usd = 10 ** rng.uniform(-0.7, 1)
        for zone in zones:
            place = Location("r", zone)
            pools = () if pool is None else (pool,)
            most = 6 if kind.gpus == 1 else 3
            quota = rng.randint(0, most)
            offers.append(
                Offer(kind, Market.SPOT, place, usd * rng.uniform(0.8, 1.2), quota, pools=pools)
            )
            if pool is None and rng.random() < 0.4:
                offers.append(Offer(kind, Market.ON_DEMAND, place, 2 * usd, rng.randint(0, most)))
            if pool is None and rng.random() < 0.1:
                ends_s = rng.choice([None, rng.uniform(150, 900)])
                offers.append(
                    Offer(kind, Market.RESERVED, place, 0.0, rng.randint(1, 2), ends_in_s=ends_s)
                )
    return tuple(offers)


# A group of VMs: offer, VMs, samples of a VM, GPUs used, passes.
Group = tuple[Offer, int, int, int, int]


def best_by_force(problem: Problem, most: int) -> tuple[float | None, int] | None:
    """Returns the best objective of all configurations (None: none is feasible) and their number.

    None instead of both where there are more than `most`, shared quotas aside.
    """
    rows: list[tuple[Group, ...]] = []
    dealt = 0
    for offers in _places(problem.offers):
        for groups in _every(problem, offers):
            dealt += 1
            if dealt > most:
                return None
            if _within_pools(groups):
                rows.append(groups)
    if not rows:
        return None, 0
    table = _table(problem.offers, rows)
    job = problem.job
    jobs = forecast_jobs(job, table, problem.simulator.predict(job, table))
    sure_s = jobs.time_quantile_s(job.limits.confidence)
    sure_usd = jobs.cost_usd(sure_s)
    values = jobs.time_mean_s if job.objective is Objective.TIME else jobs.cost_mean_usd
    best: float | None = None
    for row, groups in enumerate(rows):
        ends = [offer.ends_in_s for offer, *_ in groups if offer.ends_in_s is not None]
        fits = (
            sure_s[row] <= min(ends, default=np.inf)
            and (job.limits.deadline_s is None or sure_s[row] <= job.limits.deadline_s)
            and (job.limits.budget_usd is None or sure_usd[row] <= job.limits.budget_usd)
        )
        if fits and (best is None or values[row] < best):
            best = float(values[row])
    return best, len(rows)


def _places(offers: Sequence[Offer]) -> Iterator[list[Offer]]:
    """Yields the offers of each zone, with each choice of the reservations there that end."""
    for zone in dict.fromkeys(offer.location.zone for offer in offers):
        own = [offer for offer in offers if offer.location.zone == zone]
        lasting = [offer for offer in own if offer.ends_in_s is None]
        reserved = [offer for offer in own if offer.ends_in_s is not None]
        for count in range(len(reserved) + 1):
            for chosen in combinations(reserved, count):
                yield sorted([*chosen, *lasting], key=lambda offer: offer.usd_per_hour)


def _every(problem: Problem, offers: Sequence[Offer]) -> Iterator[tuple[Group, ...]]:
    job = problem.job
    kinds = list(dict.fromkeys(offer.instance_type for offer in offers))
    choices: list[list[tuple[int, bool, tuple[Group, ...]]]] = []
    for kind in kinds:
        supply = [o for o in offers if o.instance_type == kind for _ in range(o.quota)]
        limits = problem.ranges[kind.gpu]
        most = job.global_batch if job.accumulate else limits.most
        own: list[tuple[int, bool, tuple[Group, ...]]] = [(0, False, ())]
        for workers in range(1, len(supply) * kind.gpus + 1):
            for samples in range(workers * limits.least, job.global_batch + 1):
                local, extra = divmod(samples, workers)
                if local + (extra > 0) > most:
                    break
                if job.batch_rule is BatchRule.POWER_OF_TWO and (extra or local & (local - 1)):
                    continue
                passes = _passes(local + (extra > 0), limits.most, job.batch_rule)
                groups = tuple(_groups(supply, workers, local, extra, passes))
                if all(n // g // passes >= limits.least for _, _, n, g, _ in groups):
                    own.append((samples, extra > 0, groups))
        choices.append(own)

    # What the types from one on can take, with and without an uneven one among them: what is left
    # must be among it.
    reach = [{(0, False), (0, True)}]
    for own in reversed(choices):
        sums = {(samples, uneven) for samples, uneven, _ in own}
        reach.insert(0, {
            (have + more, open_left)
            for have, free in reach[0]
            for more, uneven in sums
            for open_left in ((True,) if uneven else (free, True))
            if have + more <= job.global_batch and not (uneven and free)
        })  # fmt: skip

    def deal(left: int, open_left: bool, at: int) -> Iterator[tuple[Group, ...]]:
        if at == len(choices):
            yield ()
            return
        for samples, uneven, groups in choices[at]:
            still = open_left and not uneven
            if (left - samples, still) in reach[at + 1] and (open_left or not uneven):
                for rest in deal(left - samples, still, at + 1):
                    yield (*groups, *rest)

    if (job.global_batch, True) in reach[0]:
        yield from deal(job.global_batch, True, 0)


def _within_pools(groups: Sequence[Group]) -> bool:
    units: dict[QuotaPool, int] = {}
    for offer, count, *_ in groups:
        for pool in offer.pools:
            units[pool] = units.get(pool, 0) + count * pool.weight(offer.instance_type)
    return all(used <= pool.limit for pool, used in units.items())


def _passes(local: int, most: int, rule: BatchRule) -> int:
    passes = -(-local // most)
    while rule is BatchRule.POWER_OF_TWO and passes & (passes - 1):
        passes += 1
    return passes


def _groups(
    supply: Sequence[Offer], workers: int, local: int, extra: int, passes: int
) -> Iterator[Group]:
    """Yields groups of equal VMs: workers fill VMs, one more sample goes to full VMs in turn."""
    gpus = supply[0].instance_type.gpus
    used = [gpus] * (workers // gpus) + ([workers % gpus] if workers % gpus else [])
    more = [0] * len(used)
    while extra:
        full = [i for i, g in enumerate(used) if g == gpus and more[i] < g]
        at = min(full, key=lambda i: (more[i], i)) if full else len(used) - 1
        more[at] += 1
        extra -= 1
    vms = [(o, local * g + m, g) for o, g, m in zip(supply, used, more, strict=False)]
    for offer, samples, g in dict.fromkeys(vms):
        yield offer, vms.count((offer, samples, g)), samples, g, passes


def _table(offers: Sequence[Offer], rows: Sequence[tuple[Group, ...]]) -> ConfigTable:
    position = {offer: index for index, offer in enumerate(offers)}
    cells = np.ones((5, len(rows), max(map(len, rows))), dtype=np.int64)
    cells[:2] = 0
    for row, groups in enumerate(rows):
        for column, (offer, *numbers) in enumerate(groups):
            cells[:, row, column] = (position[offer], *numbers)
    return ConfigTable(tuple(offers), *cells)
