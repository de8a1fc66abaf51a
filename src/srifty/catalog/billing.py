"""What a run costs under the providers' dated rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from srifty.catalog.builtin import builtin_billing_rules
from srifty.core.billing import PER_SECOND, UNBILLED, BillingRule
from srifty.core.offers import Market

_S_PER_HOUR = 3600.0
_HOURS_PER_MONTH = 730.0
_LATEST = "9999-12-31"


def rule_for(provider: str, date: str = _LATEST) -> BillingRule:
    """Returns the rule of a provider that held on an ISO date; the newest by default.

    A provider without a rule is taken to bill per second, at least a minute.
    """
    if provider == UNBILLED.provider:
        return UNBILLED
    rules = [
        rule for rule in builtin_billing_rules() if rule.provider == provider and rule.since <= date
    ]
    return max(rules, key=lambda rule: rule.since, default=PER_SECOND)


@dataclass(frozen=True, slots=True)
class VmUsage:
    """What one VM did; times in seconds on one clock.

    Attributes:
        name: for people.
        market: how it was paid for.
        usd_per_hour: the price that was agreed.
        running_s: when it began to run; None: it never did.
        stopped_s: when it stopped; None: it runs still.
        taken_back: whether the provider took it back (a spot VM).
    """

    name: str
    market: Market
    usd_per_hour: float
    running_s: float | None
    stopped_s: float | None = None
    taken_back: bool = False


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """A disk, billed from creation to deletion whether or not a VM uses it.

    Attributes:
        name: for people.
        gigabytes: its size.
        created_s: when it was made.
        deleted_s: when it was deleted; None: it is there still.
    """

    name: str
    gigabytes: float
    created_s: float
    deleted_s: float | None = None


@dataclass(frozen=True, slots=True)
class BillLine:
    """One line of a bill.

    Attributes:
        name: what is billed.
        billed_s: billed seconds.
        usd: dollars, total for this run.
    """

    name: str
    billed_s: float
    usd: float


def vm_line(usage: VmUsage, rule: BillingRule, now_s: float) -> BillLine:
    """Returns the bill of one VM up to now.

    From running to stop, rounded up to the rule's granularity, at least its minimum; nothing for a
    VM that never ran, nor for a spot VM that was taken back early where the rule says so.
    """
    if usage.running_s is None:
        return BillLine(usage.name, 0.0, 0.0)
    stopped_s = now_s if usage.stopped_s is None else usage.stopped_s
    ran_s = max(stopped_s - usage.running_s, 0.0)
    if usage.market is Market.SPOT and usage.taken_back and ran_s < rule.spot_free_s:
        return BillLine(usage.name, 0.0, 0.0)
    if rule.granularity_s > 0:
        ran_s = math.ceil(ran_s / rule.granularity_s - 1e-9) * rule.granularity_s
    billed_s = max(ran_s, rule.minimum_s)
    return BillLine(usage.name, billed_s, usage.usd_per_hour * billed_s / _S_PER_HOUR)


def disk_line(usage: DiskUsage, rule: BillingRule, now_s: float) -> BillLine:
    """Returns the bill of one disk up to now: its whole life, VMs stopped or not."""
    end_s = now_s if usage.deleted_s is None else usage.deleted_s
    life_s = max(end_s - usage.created_s, 0.0)
    months = life_s / _S_PER_HOUR / _HOURS_PER_MONTH
    return BillLine(usage.name, life_s, usage.gigabytes * rule.disk_usd_per_gb_month * months)


def bill(
    vms: Sequence[VmUsage], disks: Sequence[DiskUsage], rule: BillingRule, now_s: float
) -> tuple[BillLine, ...]:
    """Returns the bill of a run, a line for each VM and disk.

    Args:
        vms: what the VMs did; one that was stopped and started again is two usages.
        disks: the disks.
        rule: the provider's rule.
        now_s: the time up to which is billed.
    """
    return (
        *(vm_line(usage, rule, now_s) for usage in vms),
        *(disk_line(usage, rule, now_s) for usage in disks),
    )
