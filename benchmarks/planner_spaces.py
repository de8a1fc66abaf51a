"""Large search spaces for the planner's benchmarks, made of built-in samples and real VM shapes."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper_jobs import Prepared
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.catalog import builtin_instance_types
from srifty.compute.latency import LatencyModel
from srifty.core.job import BatchRule, Job, Limits, Objective, Overheads
from srifty.core.offers import Location, Market, Offer
from srifty.files import builtin_profiles
from srifty.planner import BatchRange
from srifty.simulator import Simulator

# USD per hour, on demand, us-east-1 (AWS's public price list); spot is taken as 40 % of it.
_TYPES = {
    "g4dn.xlarge": 0.526, "p3.2xlarge": 3.06, "g3s.xlarge": 0.75, "g4dn.12xlarge": 3.912,
    "p3.8xlarge": 12.24, "g3.8xlarge": 2.28, "g4dn.2xlarge": 0.752, "g4dn.8xlarge": 2.176,
    "g3.16xlarge": 4.56, "p3.16xlarge": 24.48,
}  # fmt: skip
_SPOT_SHARE = 0.4


@dataclass(frozen=True)
class Space:
    """A space to be searched.

    Attributes:
        name: for people.
        types: its instance types.
        quota: VMs of each offer.
        offers_per_type: on demand; also spot; and both in a second zone.
        global_batch: samples.
        target_s: seconds within which an answer is wanted.
        deadline_s: a deadline that binds where cost is minimised.
        budget_usd: a budget that binds where time is minimised.
    """

    name: str
    types: tuple[str, ...]
    quota: int
    offers_per_type: int
    global_batch: int
    target_s: float
    deadline_s: float = 700.0
    budget_usd: float = 20.0


ALL_TYPES = tuple(_TYPES)
_SINGLE = ("g4dn.xlarge", "p3.2xlarge", "g3s.xlarge")
SPACES = (
    Space("4 types x 70", (*_SINGLE, "g4dn.12xlarge"), 70, 1, 4096, 1.0, 700.0, 9.0),
    Space("2 types x 256", _SINGLE[:2], 256, 1, 8192, 1.0, 1850.0, 25.0),
    Space("3 types x 256", _SINGLE, 256, 1, 8192, 3.0, 1850.0, 25.0),
    Space("10 types x 64", ALL_TYPES, 64, 1, 8192, 5.0, 700.0, 20.0),
    Space("40 offers x 64", ALL_TYPES, 64, 4, 8192, 5.0, 700.0, 8.0),
)


def prepare_space(
    space: Space, objective: Objective, batch_rule: BatchRule, *, limited: bool = False
) -> Prepared:
    """Returns the job, offers and models of a space.

    Args:
        space: the space.
        objective: what is minimised.
        batch_rule: which local batches are allowed.
        limited: whether the space's deadline (for cost) or budget (for time) holds.
    """
    kinds = builtin_instance_types()
    places = (None,) if space.offers_per_type < 4 else ("us-east-1a", "us-east-1b")
    offers: list[Offer] = []
    for index, name in enumerate(space.types):
        for number, zone in enumerate(places):
            for market in (Market.ON_DEMAND, Market.SPOT)[: min(space.offers_per_type, 2)]:
                share = _SPOT_SHARE if market is Market.SPOT else 1.0
                # Zones differ by some per cent, now one way, now the other: neither is better.
                share *= 1 + 0.03 * number * (-1) ** index
                where = Location("us-east-1", zone)
                offers.append(Offer(kinds[name], market, where, _TYPES[name] * share, space.quota))
    gpus = {offer.instance_type.gpu for offer in offers}
    profiles = tuple(p for p in builtin_profiles("resnet50") if p.gpu in gpus)
    models = {profile.gpu: LatencyModel.fit(profile) for profile in profiles}
    limits = Limits()
    if limited:
        by_cost = objective is Objective.COST
        limits = Limits(space.deadline_s) if by_cost else Limits(budget_usd=space.budget_usd)
    job = Job(
        space.name, profiles, space.global_batch, 1000, objective, limits,
        Overheads(launch_s=150.0), batch_rule=batch_rule,
    )  # fmt: skip
    ranges = {
        gpu: BatchRange(model.min_batch, model.knee_batch, model.max_batch)
        for gpu, model in models.items()
    }
    blend = blend_of(builtin_source(), builtin_instance_types())
    return Prepared(job, tuple(offers), Simulator(models, LearnedModel(blend)), ranges)
