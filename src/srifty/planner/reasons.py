"""Why there is no plan, and the nearest values of each limit that would give one.

All relaxations come from the same numbers as feasibility itself: a configuration keeps the limits
at the asked confidence exactly when the deadline is at least its `needed_time_s` and the budget at
least its `needed_usd`. So a plan appears as soon as a limit is moved to the value printed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srifty.core.job import BatchRule, Job
from srifty.core.offers import Offer, QuotaPool, QuotaUnit
from srifty.core.plan import Reason, ReasonKind
from srifty.planner.evaluate import Candidates, IntArray
from srifty.planner.front import pareto_front
from srifty.planner.supply import TypeSupply
from srifty.units import format_duration, format_usd

# How many times the quota is offered when the planner looks for what is missing.
_MORE_QUOTA = 8

Places = Sequence[Sequence[TypeSupply]]
Search = Callable[[Sequence[Offer], BatchRule], Candidates]


def ceil_duration(seconds: float) -> str:
    """Returns a duration rounded up, so that it works when it is given back as a deadline."""
    unit = 1 if seconds < 3 * 3600 else 60
    return format_duration(math.ceil(seconds / unit - 1e-9) * unit)


def ceil_usd(usd: float) -> str:
    """Returns an amount rounded up to the digits that are shown."""
    digits = 4 if usd < 0.1 else 2 if usd < 1000 else 0
    return format_usd(math.ceil(usd * 10**digits - 1e-9) / 10**digits)


def no_configuration_reasons(
    job: Job, places: Places, missing_profiles: Sequence[str]
) -> tuple[Reason, ...]:
    """Returns why not even one configuration serves the global batch."""
    reasons = [
        Reason(
            ReasonKind.PROFILE,
            f"{gpu} is offered, but the job has no workload profile for it.",
            subject=gpu,
        )
        for gpu in missing_profiles
    ]
    supplies = [supply for place in places for supply in place]
    if not supplies:
        reasons.append(
            Reason(
                ReasonKind.QUOTA,
                "No VM can be had: give at least one type a quota above 0 whose GPU has a profile.",
            )
        )
        return tuple(reasons)
    least = min(supply.batches.least for supply in supplies)
    if job.global_batch < least:
        reasons.append(
            Reason(
                ReasonKind.BATCH,
                f"The model needs at least {least} samples per pass, the global batch has "
                f"{job.global_batch}.",
                nearest=least,
            )
        )
    else:
        reasons.append(
            Reason(
                ReasonKind.BATCH,
                f"No allowed local batches sum to exactly {job.global_batch} on these VMs.",
            )
        )
    return tuple(reasons)


def memory_reasons(job: Job, places: Places) -> tuple[Reason, ...]:
    """Returns that the global batch exceeds what all GPUs hold in one pass, if it does."""
    capacity = max(
        sum(supply.workers * supply.batches.most for supply in supplies) for supplies in places
    )
    if capacity >= job.global_batch:
        return ()
    message = (
        f"All GPUs within quota hold {capacity:,} samples in one pass; a global batch of "
        f"{job.global_batch:,} needs {math.ceil(job.global_batch / capacity)} passes or more GPUs."
    )
    return (Reason(ReasonKind.MEMORY, message, nearest=float(capacity)),)


def limit_reasons(job: Job, candidates: Candidates) -> tuple[Reason, ...]:
    """Returns which of deadline, budget and confidence bind, and their nearest working values."""
    limits = job.limits
    time_s, usd = candidates.needed_time_s, candidates.needed_usd
    chance = f"{limits.confidence:.0%}" if limits.confidence > 0.5 else "even odds"
    reasons: list[Reason] = []
    in_time = in_budget = candidates.available
    if limits.deadline_s is not None:
        in_time = in_time & (time_s <= limits.deadline_s)
    if limits.budget_usd is not None:
        in_budget = in_budget & (usd <= limits.budget_usd)

    if limits.deadline_s is not None:
        if limits.deadline_s <= job.overheads.launch_s:
            reasons.append(
                Reason(
                    ReasonKind.DEADLINE,
                    f"The deadline ({format_duration(limits.deadline_s)}) is over before the VMs "
                    f"run: launching alone takes {format_duration(job.overheads.launch_s)}.",
                )
            )
        if in_budget.any():
            nearest = float(time_s[in_budget].min())
            within = "" if limits.budget_usd is None else f" within {format_usd(limits.budget_usd)}"
            reasons.append(
                Reason(
                    ReasonKind.DEADLINE,
                    f"The deadline of {format_duration(limits.deadline_s)} is too short{within}: "
                    f"with {chance} it takes {ceil_duration(nearest)}.",
                    nearest=nearest,
                )
            )
    if limits.budget_usd is not None and in_time.any():
        nearest = float(usd[in_time].min())
        within = "" if limits.deadline_s is None else f" for {format_duration(limits.deadline_s)}"
        reasons.append(
            Reason(
                ReasonKind.BUDGET,
                f"The budget of {format_usd(limits.budget_usd)} is too small{within}: "
                f"with {chance} it takes {ceil_usd(nearest)}.",
                nearest=nearest,
            )
        )
    if not in_budget.any() and not in_time.any():
        reasons += _both_limits(candidates, chance)
    best = float(candidates.jobs.success_probability.max())
    if 0.5 <= best < limits.confidence:
        reasons.append(
            Reason(
                ReasonKind.CONFIDENCE,
                f"The limits hold with {math.floor(best * 1000) / 10:g} % at best, "
                f"not with {limits.confidence:.0%}.",
                nearest=best,
            )
        )
    return tuple(reasons)


def _both_limits(candidates: Candidates, chance: str) -> list[Reason]:
    """Returns the pair of limits that comes nearest where no single one helps."""
    limits = candidates.job.limits
    time_s, usd = candidates.needed_time_s, candidates.needed_usd
    usable = candidates.available
    front = pareto_front(np.where(usable, time_s, np.inf), usd)
    if not front.size:
        return []
    deadline_s = limits.deadline_s or math.inf
    budget = limits.budget_usd or math.inf
    excess = np.maximum(time_s[front] / deadline_s, 1) * np.maximum(usd[front] / budget, 1)
    row = front[int(excess.argmin())]
    needed = f"{ceil_duration(float(time_s[row]))} and {ceil_usd(float(usd[row]))}"
    message = f"Moving one limit alone is not enough; with {chance}, {needed} would do."
    return [
        Reason(ReasonKind.DEADLINE, message, nearest=float(time_s[row]), subject="with budget"),
        Reason(ReasonKind.BUDGET, message, nearest=float(usd[row]), subject="with deadline"),
    ]


def forecast_reasons(job: Job, candidates: Candidates, row: int) -> tuple[Reason, ...]:
    """Returns how wrong the forecast of the nearest plan's row must be for the verdict to flip."""
    limit_s = float(candidates.jobs.time_limit_s[row])
    needed_s = float(candidates.needed_time_s[row])
    fixed_s = job.overheads.launch_s + job.overheads.billed_s(job.iterations)
    if not fixed_s < limit_s < needed_s:
        return ()
    share = 1 - (limit_s - fixed_s) / (needed_s - fixed_s)
    message = (
        f"The nearest plan would meet the limits if iterations took {share:.1%} less time than "
        "forecast."
    )
    return (Reason(ReasonKind.FORECAST, message, nearest=share),)


def reservation_reasons(candidates: Candidates, chosen: int | None = None) -> tuple[Reason, ...]:
    """Returns which reservations end too early for plans that would use them.

    Args:
        candidates: the configurations.
        chosen: the row that was chosen: only what would have been better than it counts; None: all
            that would meet the limits, or all where none would.
    """
    late = candidates.within_limits & ~candidates.available
    if chosen is None and not late.any():
        late = ~candidates.available
    order = candidates.ranked(np.ones(len(candidates), dtype=np.bool_))
    if chosen is not None:
        order = order[: int(np.flatnonzero(order == chosen)[0])]
    order = order[late[order]]
    configs = candidates.configs
    chance = f"{candidates.job.limits.confidence:.0%}"
    reasons: list[Reason] = []
    for index, offer in enumerate(configs.offers):
        if offer.ends_in_s is None:
            continue
        uses = ((configs.offer[order] == index) & (configs.count[order] > 0)).any(axis=1)
        too_long = order[uses & (candidates.needed_time_s[order] > offer.ends_in_s)]
        if not too_long.size:
            continue
        needed_s = float(candidates.needed_time_s[too_long].min())
        message = (
            f"The reservation of {offer.instance_type.name} ends in "
            f"{format_duration(offer.ends_in_s)}, too early: with it the job takes "
            f"{ceil_duration(needed_s)} ({chance})."
        )
        reasons.append(Reason(ReasonKind.RESERVATION, message, needed_s, offer.label))
    return tuple(reasons)


def out_of_quota_reasons(offers: Sequence[Offer]) -> tuple[Reason, ...]:
    """Returns which shared quotas do not even allow one VM of a type."""
    too_small = dict.fromkeys(
        (pool, offer.instance_type)
        for offer in offers
        for pool in offer.pools
        if pool.limit < pool.weight(offer.instance_type) and offer.quota > 0
    )
    return tuple(
        Reason(
            ReasonKind.QUOTA,
            f"The quota {pool.name} allows {pool.limit} {pool.unit}, but one {kind.name} takes "
            f"{pool.weight(kind)}: none can be had.",
            nearest=float(pool.weight(kind)),
            subject=pool.name,
        )
        for pool, kind in too_small
    )


def more_supply_reasons(job: Job, offers: Sequence[Offer], search: Search) -> tuple[Reason, ...]:
    """Returns which quota, raised alone, would give a plan, and whether other batches would.

    Args:
        job: the job.
        offers: what can be had.
        search: looks at all configurations of some offers under a batch rule.
    """
    reasons: list[Reason] = []
    pools = (p for offer in offers for p in offer.pools if p.unit is QuotaUnit.VCPUS)
    quotas = dict.fromkeys((*(_VmQuota(offer.label) for offer in offers), *pools))
    for quota in quotas:
        found = search([_widened(offer, quota) for offer in offers], job.batch_rule)
        rows = np.flatnonzero(found.feasible)
        if rows.size:
            reasons.append(_quota_reason(found, rows, quota))
    if job.batch_rule is BatchRule.POWER_OF_TWO:
        found = search(offers, BatchRule.ANY)
        if len(found) and found.feasible.any():
            reasons.append(
                Reason(ReasonKind.BATCH, "Local batches of any size would do: --batches any.")
            )
    return tuple(reasons)


@dataclass(frozen=True, slots=True)
class _VmQuota:
    """The quota in VMs of one type and market, over all zones that offer it."""

    label: str


def _widened(offer: Offer, quota: QuotaPool | _VmQuota) -> Offer:
    """Returns the offer with one quota raised; a raised pool keeps its name."""

    def raised(pool: QuotaPool) -> QuotaPool:
        return replace(pool, limit=pool.limit * _MORE_QUOTA)

    if isinstance(quota, QuotaPool):
        pools = tuple(raised(pool) if pool == quota else pool for pool in offer.pools)
        return replace(offer, pools=pools)
    if offer.label != quota.label:
        return offer
    pools = tuple(raised(p) if p.unit is QuotaUnit.VMS else p for p in offer.pools)
    return replace(offer, quota=offer.quota * _MORE_QUOTA, pools=pools)


def _quota_reason(found: Candidates, rows: IntArray, quota: QuotaPool | _VmQuota) -> Reason:
    """Returns how much of a quota the most modest feasible row uses."""
    weights = [_units(offer, quota) for offer in found.configs.offers]
    used = found.configs.count * np.array(weights)[found.configs.offer]
    needed = int(used.sum(axis=1)[rows].min())
    if isinstance(quota, QuotaPool):
        message = f"A quota of {needed} vCPUs for {quota.name} instead of {quota.limit} would do."
        return Reason(ReasonKind.QUOTA, message, nearest=float(needed), subject=quota.name)
    message = f"A quota of {needed} x {quota.label} would do."
    return Reason(ReasonKind.QUOTA, message, nearest=float(needed), subject=quota.label)


def _units(offer: Offer, quota: QuotaPool | _VmQuota) -> int:
    """Returns how much of a quota one VM of an offer takes; a raised pool keeps its name."""
    if isinstance(quota, _VmQuota):
        return int(offer.label == quota.label)
    return sum(p.weight(offer.instance_type) for p in offer.pools if p.name == quota.name)
