"""What a user should know of a plan before renting: warnings, and what the bill assumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srifty.core.job import Job
from srifty.core.offers import Market, Offer
from srifty.core.plan import Plan
from srifty.planner.supply import BatchRange
from srifty.units import format_duration, format_usd


def bill_assumptions(job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
    """Returns what the cost of a plan on these offers takes for granted, in full sentences."""
    launch = format_duration(job.overheads.launch_s)
    sentences: list[str] = []
    if any(offer.market is not Market.OWNED for offer in offers):
        sentences.append(
            f"VMs are billed per second from running to stop; launching ({launch}) is not."
        )
    if any(offer.market is Market.SPOT for offer in offers):
        sentences.append("Spot VMs are assumed to stay: reclaims cost no time here.")
    return tuple(sentences)


def plan_warnings(job: Job, plan: Plan, ranges: Mapping[str, BatchRange]) -> tuple[str, ...]:
    """Returns what to look at before renting a plan, in full sentences."""
    offers = [group.offer for group in plan.config.groups]
    return (
        *_small_batches(plan, ranges),
        *_mixed_hosts(offers),
        *_burst(plan, offers),
        *_zones(job, plan, offers),
        *_reservations(plan, offers),
        *_quotas(plan),
    )


def _small_batches(plan: Plan, ranges: Mapping[str, BatchRange]) -> list[str]:
    small = {
        group.offer.instance_type.gpu: group.micro_batch
        for group in plan.config.groups
        if group.micro_batch < ranges[group.offer.instance_type.gpu].knee
    }
    return [
        f"{batch} samples per pass on {gpu} are below the useful batch ({ranges[gpu].knee}): "
        "passes hardly get shorter there."
        for gpu, batch in small.items()
    ]


def _mixed_hosts(offers: Sequence[Offer]) -> list[str]:
    """Collectives over different hosts have hung: NCCL's choices depend on what it finds there."""
    vendors = sorted({o.instance_type.cpu_vendor for o in offers if o.instance_type.cpu_vendor})
    gpus = sorted({offer.instance_type.gpu for offer in offers})
    sentences: list[str] = []
    if len(vendors) > 1:
        sentences.append(
            f"CPU vendors differ ({', '.join(vendors)}): some NCCL versions choose different "
            "algorithms there and hang. Try an allreduce over one VM of each type before renting "
            "the rest."
        )
    if len(gpus) > 1:
        sentences.append(
            f"GPU models differ ({', '.join(gpus)}): try an allreduce over one VM of each type "
            "before renting the rest."
        )
    return sentences


def _burst(plan: Plan, offers: Sequence[Offer]) -> list[str]:
    """Credits for "up to" speeds last minutes; a job that is longer gets the sustained speed."""
    kinds = dict.fromkeys(offer.instance_type for offer in offers)
    if plan.config.vms == 1:
        return []
    return [
        f"{kind.name} is rated up to {kind.burst_gbit_per_s:g} Gbit/s, on credits that last "
        f"minutes; for {format_duration(plan.forecast.time_s.mean)} the sustained "
        f"{kind.rated_gbit_per_s:g} Gbit/s count. A short probe would show the higher figure."
        for kind in kinds
        if kind.burst_gbit_per_s is not None and kind.burst_gbit_per_s > kind.rated_gbit_per_s
    ]


def _zones(job: Job, plan: Plan, offers: Sequence[Offer]) -> list[str]:
    zones = sorted({str(offer.location) for offer in offers})
    if len(zones) < 2:
        return []
    usd = plan.forecast.traffic_usd
    return [
        f"The plan spans {' and '.join(zones)}: gradients that cross cost {format_usd(usd)} for "
        f"{job.iterations:,} iterations (counted); the slower link between zones is not modelled."
    ]


def _reservations(plan: Plan, offers: Sequence[Offer]) -> list[str]:
    return [
        f"The reservation of {offer.instance_type.name} ends "
        f"{format_duration(offer.ends_in_s - plan.forecast.time_s.mean)} after the expected end."
        for offer in dict.fromkeys(offers)
        if offer.ends_in_s is not None and offer.ends_in_s > plan.forecast.time_s.mean
    ]


def _quotas(plan: Plan) -> list[str]:
    """Returns which shared quotas the plan uses up: not one VM more would fit."""
    sentences: list[str] = []
    pools = dict.fromkeys(pool for group in plan.config.groups for pool in group.offer.pools)
    for pool in pools:
        groups = [group for group in plan.config.groups if pool in group.offer.pools]
        used = sum(group.count * group.offer.instance_type.vcpus for group in groups)
        least = min(group.offer.instance_type.vcpus for group in groups)
        if pool.vcpus - used < least:
            sentences.append(f"The quota {pool.name} is used up: {used} of {pool.vcpus} vCPUs.")
    return sentences
