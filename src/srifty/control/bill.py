"""What a run costs: its VMs at the prices that were paid, its disks, under dated rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from srifty.catalog.billing import BillLine, DiskUsage, VmUsage, disk_line, rule_for, vm_line


@dataclass(frozen=True, slots=True)
class PaidPrice:
    """A price that holds from a time on.

    Attributes:
        since_s: seconds since the command.
        usd_per_hour: of one VM.
        source: where it comes from.
    """

    since_s: float
    usd_per_hour: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class RentedVm:
    """A VM as the ledger knows it.

    Attributes:
        usage: what it did; its price is the first one.
        provider: who bills it.
        rented_on: ISO date of the request, which says the rule.
        prices: in order of time; at least one.
    """

    usage: VmUsage
    provider: str
    rented_on: str
    prices: tuple[PaidPrice, ...]

    def usd_per_hour(self, now_s: float) -> float:
        """Returns what it costs now; nothing while it is not billed."""
        if self.usage.running_s is None or self.usage.stopped_s is not None:
            return 0.0
        return max(
            (price for price in self.prices if price.since_s <= now_s),
            key=lambda price: price.since_s,
            default=self.prices[0],
        ).usd_per_hour


@dataclass(frozen=True, slots=True)
class RentedDisk:
    """A disk as the ledger knows it.

    Attributes:
        usage: what it is.
        provider: who bills it.
        made_on: ISO date of its making, which says the rule.
    """

    usage: DiskUsage
    provider: str
    made_on: str


@dataclass(frozen=True, slots=True)
class Bill:
    """What a run has cost so far.

    Attributes:
        at_s: seconds since the command, up to which is billed.
        vms: a line for each VM that was asked for; those that never ran cost nothing.
        disks: a line for each disk.
        usd_per_hour: what an hour costs at present, disks apart.
    """

    at_s: float
    vms: tuple[BillLine, ...]
    disks: tuple[BillLine, ...]
    usd_per_hour: float

    @property
    def usd(self) -> float:
        """Dollars, total for this run."""
        return sum(line.usd for line in (*self.vms, *self.disks))


def bill_of(vms: Sequence[RentedVm], disks: Sequence[RentedDisk], now_s: float) -> Bill:
    """Returns the bill of VMs and disks up to a time of the run."""
    return Bill(
        now_s,
        tuple(_vm_line(vm, now_s) for vm in vms),
        tuple(disk_line(d.usage, rule_for(d.provider, d.made_on), now_s) for d in disks),
        sum(vm.usd_per_hour(now_s) for vm in vms),
    )


def _vm_line(vm: RentedVm, now_s: float) -> BillLine:
    usage = replace(vm.usage, usd_per_hour=_mean_price(vm, now_s))
    return vm_line(usage, rule_for(vm.provider, vm.rented_on), now_s)


def _mean_price(vm: RentedVm, now_s: float) -> float:
    """Returns the price per hour over the VM's running time, which is what is paid on average."""
    running_s = vm.usage.running_s
    stopped_s = now_s if vm.usage.stopped_s is None else vm.usage.stopped_s
    first = vm.prices[0].usd_per_hour
    if running_s is None or stopped_s <= running_s or len(vm.prices) == 1:
        return first
    ends_s = [*(price.since_s for price in vm.prices[1:]), stopped_s]
    paid, at_s = 0.0, running_s
    for price, end_s in zip(vm.prices, ends_s, strict=True):
        until_s = min(max(end_s, at_s), stopped_s)
        paid += price.usd_per_hour * (until_s - at_s)
        at_s = until_s
    return paid / (stopped_s - running_s)
