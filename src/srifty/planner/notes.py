"""What a user should know of a plan before renting: warnings, and what the bill assumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srifty.core.cluster import VmGroup
from srifty.core.job import Job
from srifty.core.offers import Market, Offer, QuotaPool, QuotaUnit
from srifty.core.plan import Plan
from srifty.planner.supply import BatchRange
from srifty.simulator.transfers import job_transfers
from srifty.units import format_duration, format_usd


def bill_assumptions(job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
    """Returns what the cost of a plan on these offers takes for granted, in full sentences."""
    launch = format_duration(job.overheads.launch_s)
    sentences: list[str] = []
    if any(offer.market is not Market.OWNED for offer in offers):
        sentences.append(
            f"VMs are billed per second from running to stop; launching ({launch}) is not."
        )
    if any(offer.interruptions.per_hour for offer in offers):
        recovery = format_duration(job.overheads.recovery_s)
        sentences.append(
            f"A lost VM stops the whole job for {recovery} (notice, launch, set-up, restore), and "
            "what was done since the last checkpoint is done again; another VM can be had then."
        )
    return tuple(sentences)


def plan_warnings(job: Job, plan: Plan, ranges: Mapping[str, BatchRange]) -> tuple[str, ...]:
    """Returns what to look at before renting a plan, in full sentences."""
    offers = [group.offer for group in plan.config.groups]
    return (
        *_exchange(job),
        *_checkpoints(job, plan),
        *_batches(plan, ranges),
        *_batch_norm(job, plan),
        *_input(job, plan),
        *_burst(plan, offers),
        *_zones(job, plan, offers),
        *_reservations(plan, offers),
        *_quotas(plan),
    )


def _exchange(job: Job) -> list[str]:
    if job_transfers(job) is not None:
        return []
    return [
        "No gradient sizes are known: the exchange between GPUs is left out, so that times and "
        "costs of plans with several GPUs are too low."
    ]


def _checkpoints(job: Job, plan: Plan) -> list[str]:
    """Returns a warning where a lost VM loses the work of the whole job."""
    told = plan.forecast.interruptions
    if told is None or told.checkpoint_every is not None or job.overheads.checkpoint_auto:
        return []
    return [
        f"No checkpoints are stated: a lost VM ({1 - told.none_probability:.0%} chance) starts the "
        "job over. State them: overheads.checkpoint: {every: auto, takes: 4s}."
    ]


def _batches(plan: Plan, ranges: Mapping[str, BatchRange]) -> list[str]:
    """Returns warnings of micro-batches that are little use, not measured or may not fit."""
    sentences: list[str] = []
    for gpu, batch in {
        g.offer.instance_type.gpu: g.micro_batch for g in plan.config.groups
    }.items():
        known = ranges[gpu]
        samples = f"{batch} sample{'s' if batch > 1 else ''} per pass on {gpu}"
        if not known.measured[0] <= batch <= known.measured[1]:
            low, high = known.measured
            sentences.append(
                f"{samples}: measured were {low} to {high}, so its latency is extrapolated."
            )
        elif batch < known.knee:
            sentences.append(
                f"{samples} are below the useful batch ({known.knee}): passes hardly get shorter "
                "there."
            )
        if known.verified and batch not in known.verified:
            sentences.append(
                f"{samples}: that they fit in memory was not verified, as it was for "
                f"{_nearest(batch, known.verified)}."
            )
    return sentences


def _batch_norm(job: Job, plan: Plan) -> list[str]:
    """Returns a warning where a model's statistics would depend on which worker has a sample."""
    profiles = [job.profile_for(g.offer.instance_type.gpu) for g in plan.config.groups]
    local = {samples for g in plan.config.groups for samples in g.local_batches}
    has_layers = any(profile is not None and profile.batch_norm for profile in profiles)
    if len(local) == 1 or not has_layers:
        return []
    return [
        f"Local batches of {min(local)} to {max(local)} samples and plain batch normalisation: its "
        "statistics depend on the local batch, so that another model is trained than on equal "
        "GPUs. srifty.training.sync_batch_norm(model) makes them those of the global batch."
    ]


def _input(job: Job, plan: Plan) -> list[str]:
    """Returns a warning where loaders, and not GPUs or network, set the pace."""
    if not plan.forecast.iteration.is_input_bound:
        return []
    rates: dict[VmGroup, float] = {}
    for group in plan.config.groups:
        profile = job.profile_for(group.offer.instance_type.gpu)
        rate = None if profile is None else profile.input_samples_per_s_per_vcpu
        if rate is not None:
            rates[group] = rate * group.offer.instance_type.vcpus
    slowest = max(rates, key=lambda group: group.samples_per_vm / rates[group])
    kind = slowest.offer.instance_type
    return [
        f"The plan is input-bound: {kind.vcpus} vCPUs of {kind.name} deliver "
        f"{rates[slowest]:.3g} samples per second, which is less than its GPUs would take."
    ]


def _nearest(batch: int, verified: frozenset[int]) -> str:
    """Returns the verified batches on both sides of one, for people."""
    below = max((each for each in verified if each < batch), default=None)
    above = min((each for each in verified if each > batch), default=None)
    return " and ".join(str(each) for each in (below, above) if each is not None)


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
    zones = sorted({offer.location.zone for offer in offers if offer.location.zone is not None})
    anywhere = dict.fromkeys(offer.label for offer in offers if offer.location.zone is None)
    if len(zones) == 1 and anywhere:
        return [f"Rent {', '.join(anywhere)} in {zones[0]}, beside the other VMs."]
    if len(zones) < 2:
        return []
    usd = plan.forecast.traffic_usd
    return [
        f"The plan spans {' and '.join(zones)}: gradients that cross cost {format_usd(usd)} in "
        f"total for {job.iterations:,} iterations (counted); the slower link between zones is not "
        "modelled."
    ]


def _reservations(plan: Plan, offers: Sequence[Offer]) -> list[str]:
    return [
        f"The reservation of {offer.instance_type.name} ends "
        f"{format_duration(offer.ends_in_s - plan.forecast.time_s.mean)} after the expected end."
        for offer in dict.fromkeys(offers)
        if offer.ends_in_s is not None and offer.ends_in_s > plan.forecast.time_s.mean
    ]


def _quotas(plan: Plan) -> list[str]:
    """Returns which quotas the plan uses up: not one VM more would fit."""
    groups = [g for g in plan.config.groups if g.offer.market in (Market.ON_DEMAND, Market.SPOT)]
    sentences: list[str] = []
    for pool in dict.fromkeys(pool for group in groups for pool in _pools(group.offer)):
        weights = {
            group: pool.weight(group.offer.instance_type)
            for group in groups
            if pool in _pools(group.offer)
        }
        used = sum(group.count * weight for group, weight in weights.items())
        if pool.limit - used < min(weights.values()):
            full = "is used up" if used == pool.limit else "has no room for another of these VMs"
            sentences.append(f"The quota {pool.name} {full}: {used} of {pool.limit} {pool.unit}.")
    return sentences


def _pools(offer: Offer) -> tuple[QuotaPool, ...]:
    """Returns the quotas of an offer, its number of VMs included."""
    if any(pool.unit is QuotaUnit.VMS for pool in offer.pools):
        return offer.pools
    return (*offer.pools, QuotaPool(offer.label, offer.quota, QuotaUnit.VMS))
