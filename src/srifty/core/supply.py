"""What a job asks the catalog for: where, in which markets, how many of what."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import require, require_count, require_positive
from srifty.core.hardware import InstanceType
from srifty.core.offers import Market


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """How many VMs of a type can be had.

    Attributes:
        instance_type: the type's name.
        market: the market it holds for; None: for each market of the request.
        vms: VMs at most.
    """

    instance_type: str
    market: Market | None
    vms: int

    def __post_init__(self) -> None:
        require_count("quota", self.vms, least=0)


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """A price that the user states.

    Attributes:
        instance_type: the type's name.
        market: the market it holds for.
        usd_per_hour: price of one VM for an hour.
    """

    instance_type: str
    market: Market
    usd_per_hour: float

    def __post_init__(self) -> None:
        require_positive("price", self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class SupplyRequest:
    """What may be rented for a job.

    Attributes:
        cloud: the provider, `aws`.
        region: the region, `us-east-1`.
        markets: markets that may be used.
        quota: how many VMs of which type.
        prices: prices that replace the catalog's.
        declared: instance types that the catalog does not know.
    """

    cloud: str
    region: str
    markets: tuple[Market, ...]
    quota: tuple[QuotaEntry, ...]
    prices: tuple[PriceEntry, ...] = ()
    declared: tuple[InstanceType, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.markets), "offers need at least one market: on-demand, spot")
        require(bool(self.quota), "offers need a quota: how many VMs of which instance types")
