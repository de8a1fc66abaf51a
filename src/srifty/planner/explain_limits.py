"""Limits of a plan, and steps by which each can be relaxed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from srifty.core.job import Job
from srifty.core.offers import Market, Offer, QuotaUnit
from srifty.core.plan import Plan
from srifty.units import format_duration, format_usd

# How many quotas are looked at: those of the types that the plan uses most of.
_MOST_QUOTAS = 6
# What "much more" of a quota is.
_MANY = 8


@dataclass(frozen=True)
class Step:
    """A limit that is relaxed somewhat.

    Attributes:
        words: how far, for people; begins a sentence, unless it is the first step.
        job: the job with its limits.
        offers: what could be rented.
    """

    words: str
    job: Job
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class Relaxation:
    """A limit with the steps by which it is relaxed: first without it, then little by little.

    Attributes:
        subject: the limit, in a word.
        name: the limit, beginning a sentence.
        steps: the first one tells whether it binds; of the others the first that helps is shown.
    """

    subject: str
    name: str
    steps: tuple[Step, ...]


def relaxations_of(job: Job, offers: tuple[Offer, ...], plan: Plan) -> tuple[Relaxation, ...]:
    """Returns the limits that may hold a plan back: deadline, budget, and quotas it uses up."""
    limits = job.limits
    found: list[Relaxation] = []
    if limits.deadline_s is not None:
        found.append(
            _relaxation(
                "deadline",
                limits.deadline_s,
                60.0,
                format_duration,
                lambda most: replace(job, limits=replace(limits, deadline_s=most)),
                offers,
            )
        )
    if limits.budget_usd is not None:
        found.append(
            _relaxation(
                "budget",
                limits.budget_usd,
                1.0,
                format_usd,
                lambda most: replace(job, limits=replace(limits, budget_usd=most)),
                offers,
            )
        )
    return (*found, *_quotas(job, offers, plan))


def _relaxation(
    name: str,
    limit: float,
    little: float,
    words: Callable[[float], str],
    limited: Callable[[float | None], Job],
    offers: tuple[Offer, ...],
) -> Relaxation:
    """Returns a limit without it, and with a little, a twentieth and a quarter more of it."""
    steps = [
        Step(f"{words(more)} more of {name}", limited(limit + more), offers)
        for more in sorted((little, 0.05 * limit, 0.25 * limit))
    ]
    free = Step("without it", limited(None), offers)
    return Relaxation(name, f"The {name} ({words(limit)})", (free, *steps))


def _quotas(job: Job, offers: tuple[Offer, ...], plan: Plan) -> list[Relaxation]:
    used: dict[str, int] = {}
    for group in plan.config.groups:
        used[group.offer.label] = used.get(group.offer.label, 0) + group.count
    own = {group.offer.label: group.offer for group in plan.config.groups}
    found: list[Relaxation] = []
    for label in sorted(used, key=used.__getitem__, reverse=True)[:_MOST_QUOTAS]:
        offer = own[label]
        if used[label] < offer.most_vms or offer.market not in (Market.ON_DEMAND, Market.SPOT):
            continue
        steps = tuple(
            Step(words, job, tuple(_widened(offers, label, more)))
            for words, more in (
                (f"with {_MANY * offer.most_vms} of them", (_MANY - 1) * offer.most_vms),
                (f"One more {label}", 1),
                (f"{used[label]} more {label}", used[label]),
            )
        )
        name = f"The quota of {label} ({offer.most_vms})"
        found.append(Relaxation(f"quota of {label}", name, steps))
    return found


def _widened(offers: Sequence[Offer], label: str, more: int) -> list[Offer]:
    """Returns the offers with room for more VMs of a type and market, in all quotas that it has.

    A quota that it shares grows for all who share it.
    """
    grown = {
        pool: replace(
            pool,
            limit=pool.limit
            + more * (offer.instance_type.vcpus if pool.unit is QuotaUnit.VCPUS else 1),
        )
        for offer in offers
        if offer.label == label
        for pool in offer.pools
    }
    return [
        replace(
            offer,
            quota=offer.quota + (more if offer.label == label else 0),
            pools=tuple(grown.get(pool, pool) for pool in offer.pools),
        )
        for offer in offers
    ]
