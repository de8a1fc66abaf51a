"""What a job asks the catalog for: where, in which markets, how many of what."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import (
    require,
    require_count,
    require_not_negative,
    require_positive,
)
from srifty.core.hardware import InstanceType
from srifty.core.interruptions import InterruptionRate
from srifty.core.offers import Market


@dataclass(frozen=True, slots=True)
class QuotaEntry:
    """How many VMs of a type can be had.

    Attributes:
        instance_type: the type's name.
        market: the market it holds for; None: for each market of the request.
        vms: VMs at most; None: only quotas in vCPUs limit it.
    """

    instance_type: str
    market: Market | None
    vms: int | None

    def __post_init__(self) -> None:
        if self.vms is not None:
            require_count("quota", self.vms, least=0)


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A quota in vCPUs that the types of a family share.

    Attributes:
        market: the market it holds for.
        pool: the pool's name as instance types state it, `G` or `P`.
        vcpus: vCPUs that may run at a time.
    """

    market: Market
    pool: str
    vcpus: int

    def __post_init__(self) -> None:
        require_count("vcpu_quota", self.vcpus, least=0)

    def __str__(self) -> str:
        return f"{self.market} {self.pool}"


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
class InterruptionEntry:
    """How often spot VMs are taken back, as the user states it.

    Attributes:
        instance_type: the type's name.
        rate: how often.
    """

    instance_type: str
    rate: InterruptionRate


@dataclass(frozen=True, slots=True)
class ReservedEntry:
    """VMs that are reserved for the user.

    Attributes:
        instance_type: the type's name.
        count: VMs.
        starts_in_s: seconds from now until they can be used; 0 or less: already.
        ends_in_s: seconds from now until the reservation ends; None: no end.
        usd_per_hour: price of one VM for an hour; 0 where it is paid anyhow (sunk).
        zone: the zone they lie in; None: any zone of the region.
    """

    instance_type: str
    count: int
    starts_in_s: float = 0.0
    ends_in_s: float | None = None
    usd_per_hour: float = 0.0
    zone: str | None = None

    def __post_init__(self) -> None:
        require_count("reserved: count", self.count)
        require_not_negative("reserved: usd_per_hour", self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class OwnedEntry:
    """Machines of the user's own.

    Attributes:
        name: their name.
        gpu: name of the GPU model.
        gpus: GPUs in one machine.
        vcpus: CPUs of one machine.
        count: how many machines.
        usd_per_hour: what an hour of one costs (power, depreciation); 0: nothing.
        gpu_memory_bytes: memory of each GPU; None: as the GPU model's data sheet says.
        rated_gbit_per_s: network speed between them; None: unknown.
        cpu_vendor: `intel`, `amd`; None where unknown.
        nvlink: whether the GPUs of a machine are joined by NVLink; None where unknown.
    """

    name: str
    gpu: str
    gpus: int
    vcpus: int
    count: int
    usd_per_hour: float = 0.0
    gpu_memory_bytes: int | None = None
    rated_gbit_per_s: float | None = None
    cpu_vendor: str | None = None
    nvlink: bool | None = None

    def __post_init__(self) -> None:
        require_count("count", self.count)
        require_not_negative("usd_per_hour", self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class SupplyRequest:
    """What may be rented for a job.

    Attributes:
        cloud: the provider, `aws`.
        region: the region, `us-east-1`.
        markets: markets in which VMs of the quota may be rented.
        quota: how many VMs of which type.
        prices: prices that replace the catalog's.
        declared: instance types that the catalog does not know.
        vcpu_quota: quotas in vCPUs; None: those of the user's own catalog.
        zones: zones that may be used; empty: any.
        reserved: reserved VMs.
        owned: machines of the user's own.
        interruptions: how often spot VMs are taken back, where the user states it.
    """

    cloud: str
    region: str
    markets: tuple[Market, ...]
    quota: tuple[QuotaEntry, ...]
    prices: tuple[PriceEntry, ...] = ()
    declared: tuple[InstanceType, ...] = ()
    vcpu_quota: tuple[PoolEntry, ...] | None = ()
    zones: tuple[str, ...] = ()
    reserved: tuple[ReservedEntry, ...] = ()
    owned: tuple[OwnedEntry, ...] = ()
    interruptions: tuple[InterruptionEntry, ...] = ()

    def __post_init__(self) -> None:
        require(
            bool(self.markets or not self.quota),
            "offers need at least one market: on-demand, spot",
        )
        require(
            bool(self.quota or self.reserved or self.owned),
            "offers need a quota (how many VMs of which types), reserved or owned machines",
        )
