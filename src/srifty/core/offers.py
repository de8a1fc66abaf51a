"""Offers: what can be rented, where, in which market, at what price, how often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from srifty.core._checks import require, require_count
from srifty.core.billing import PER_SECOND, BillingRule
from srifty.core.hardware import InstanceType
from srifty.core.interruptions import NEVER, InterruptionRate


class Market(StrEnum):
    """How a VM is paid for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a VM runs.

    Attributes:
        region: the cloud's region, `us-east-1`; empty for owned machines.
        zone: the zone inside the region; None where the price holds for all zones.
    """

    region: str
    zone: str | None = None

    def __str__(self) -> str:
        return self.zone or self.region or "on site"


class QuotaUnit(StrEnum):
    """What a quota counts."""

    VCPUS = "vCPUs"
    VMS = "VMs"


@dataclass(frozen=True, slots=True)
class QuotaPool:
    """A quota that several offers share: types of one family, or zones of one region.

    Attributes:
        name: such as `spot G`, for people.
        limit: how many units may run at a time.
        unit: what is counted.
    """

    name: str
    limit: int
    unit: QuotaUnit = QuotaUnit.VCPUS

    def __post_init__(self) -> None:
        require_count(f"quota {self.name!r}: {self.unit}", self.limit, least=0)

    def weight(self, instance_type: InstanceType) -> int:
        """Returns how many units one VM takes."""
        return instance_type.vcpus if self.unit is QuotaUnit.VCPUS else 1


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance type that can be had in one place and market.

    Attributes:
        instance_type: the VM shape.
        market: how it is paid for.
        location: where it runs.
        usd_per_hour: price of one VM for an hour. Zero only for owned or reserved machines.
        quota: how many VMs can be had at most.
        price_source: where the price comes from.
        price_date: ISO date or time of the price, or a part of it; None where the user gave it.
        pools: the quotas that it shares with other offers.
        ends_in_s: seconds from now until it can no longer be used (a reservation); None: no end.
        billing: how it is billed.
        interruptions: how often the provider takes a VM back.
    """

    instance_type: InstanceType
    market: Market
    location: Location
    usd_per_hour: float
    quota: int
    price_source: str = ""
    price_date: str | None = None
    pools: tuple[QuotaPool, ...] = ()
    ends_in_s: float | None = None
    billing: BillingRule = PER_SECOND
    interruptions: InterruptionRate = NEVER

    def __post_init__(self) -> None:
        price = self.usd_per_hour
        free_is_fine = self.market in (Market.OWNED, Market.RESERVED)
        require(
            math.isfinite(price) and (price > 0 or (price == 0 and free_is_fine)),
            f"{self.label}: usd_per_hour must be above 0 (zero only for owned or reserved "
            f"machines), not {price!r}",
        )
        require_count(f"{self.label}: quota", self.quota, least=0)

    @property
    def most_vms(self) -> int:
        """How many VMs can be had, all its quotas considered."""
        by_pool = (pool.limit // pool.weight(self.instance_type) for pool in self.pools)
        return min((self.quota, *by_pool))

    @property
    def label(self) -> str:
        """The type and, where it is not on-demand, the market: `g3.8xlarge (spot)`."""
        suffix = "" if self.market is Market.ON_DEMAND else f" ({self.market})"
        return f"{self.instance_type.name}{suffix}"
