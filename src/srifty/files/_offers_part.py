"""The `offers` of a job file: what may be rented, where, how often."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, Field, PlainValidator

from srifty.core._checks import MOST_BYTES, MOST_ITEMS
from srifty.core.hardware import InstanceType
from srifty.core.offers import Market
from srifty.core.supply import (
    OwnedEntry,
    PoolEntry,
    PriceEntry,
    QuotaEntry,
    ReservedEntry,
    SupplyRequest,
)
from srifty.errors import InputError, Problem
from srifty.files._fields import Moment
from srifty.files._reading import Count, FileModel, Name, shown
from srifty.units import GIB

_MOST_USD = 1e9
_RENTED = (Market.ON_DEMAND, Market.SPOT)
_T = TypeVar("_T")


def _some_types(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise ValueError(
            "must map instance types to numbers of VMs, such as {p3.8xlarge: 2}, "
            f"not {shown(value)}"
        )
    return cast("dict[Any, Any]", value)


def _quota(value: Any) -> dict[Market | None, int | None]:
    if isinstance(value, dict) and value:
        return {**_by_market(cast("dict[Any, Any]", value), _vms)}
    return {None: _vms(value)}


def _vms(value: Any) -> int | None:
    if value == "vcpus":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ITEMS:
        raise ValueError(
            "must be a number of VMs (0 or more), a mapping of markets to numbers, or vcpus (only "
            f"offers.vcpu_quota limits it), not {shown(value)}"
        )
    return value


def _prices(value: Any) -> dict[Market, float]:
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"must map markets to USD per hour, such as {{spot: 3.67}}, not {shown(value)}"
        )
    return _by_market(cast("dict[Any, Any]", value), _price)


def _price(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_USD:
        raise ValueError(f"must be USD per hour, above 0, not {shown(value)}")
    return float(value)


def _by_market(value: dict[Any, Any], read: Callable[[Any], _T]) -> dict[Market, _T]:
    """Returns what is said for each market; all that is wrong is named in one error."""
    found: dict[Market, _T] = {}
    messages: list[str] = []
    for name, entry in value.items():
        try:
            market = _market(name)
        except ValueError as error:
            messages.append(str(error))
            continue
        try:
            found[market] = read(entry)
        except ValueError as error:
            messages.append(f"{market}: {error}")
    if messages:
        raise ValueError("; ".join(messages))
    return found


def _market(value: Any) -> Market:
    if value in _RENTED:
        return Market(value)
    raise ValueError(f"markets are on-demand and spot, not {shown(value)}")


def _markets(value: Any) -> tuple[Market, ...]:
    """Returns the markets in which VMs are rented; reserved and owned ones are used if declared."""
    names: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not names:
        raise ValueError("must name at least one market: on-demand, spot")
    rented = [name for name in names if name not in (Market.RESERVED, Market.OWNED)]
    return tuple(dict.fromkeys(_market(name) for name in rented))


def _zones(value: Any) -> tuple[str, ...]:
    if value == "any":
        return ()
    names: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"must be any, a zone, or a list of zones, not {shown(value)}")
    return tuple(cast("list[str]", names))


def _pool(name: Any) -> tuple[Market, str]:
    market, _, family = str(name).partition(" ")
    try:
        return _market(market), _family(family)
    except ValueError:
        raise ValueError(
            'pools are named by market and family, such as "spot G" or "on-demand P", '
            f"not {shown(name)}"
        ) from None


def _family(text: str) -> str:
    if not text.strip():
        raise ValueError("no family")
    return text.strip()


def _vcpu_quota(value: Any) -> tuple[PoolEntry, ...]:
    if not isinstance(value, dict):
        raise ValueError(f'must map pools to vCPUs, such as {{"spot G": 120}}, not {shown(value)}')
    entries: list[PoolEntry] = []
    for name, vcpus in cast("dict[Any, Any]", value).items():
        market, family = _pool(name)
        if isinstance(vcpus, bool) or not isinstance(vcpus, int) or not 0 <= vcpus <= MOST_ITEMS:
            raise ValueError(f"{name}: must be a number of vCPUs (0 or more), not {shown(vcpus)}")
        entries.append(PoolEntry(market, family, vcpus))
    return tuple(entries)


class _DeclaredFile(FileModel):
    """An instance type that the catalog does not know."""

    name: Name
    gpu: Name
    gpus: Count
    gpu_memory_gib: float = Field(gt=0, le=MOST_BYTES / GIB)
    vcpus: Count
    rated_gbit_per_s: float = Field(gt=0)
    burst_gbit_per_s: float | None = Field(default=None, gt=0)
    cpu_vendor: Name | None = None
    nvlink: bool | None = None
    quota_pool: Name | None = None


class _ReservedFile(FileModel):
    """VMs that are reserved for the user."""

    type: Name
    count: Count
    start: Moment | None = None
    end: Moment | None = None
    usd_per_hour: float = Field(default=0.0, ge=0, le=_MOST_USD)
    zone: Name | None = None


class _OwnedFile(FileModel):
    """Machines of the user's own."""

    name: Name
    gpu: Name
    gpus: Count
    vcpus: Count
    count: Count
    usd_per_hour: float = Field(default=0.0, ge=0, le=_MOST_USD)
    gpu_memory_gib: float | None = Field(default=None, gt=0, le=MOST_BYTES / GIB)
    rated_gbit_per_s: float | None = Field(default=None, gt=0)
    cpu_vendor: Name | None = None
    nvlink: bool | None = None


class OffersPart(FileModel):
    """What may be rented."""

    cloud: Name = "aws"
    region: Name = "us-east-1"
    zones: Annotated[tuple[str, ...], PlainValidator(_zones)] = ()
    allow_cross_zone: bool = False
    markets: Annotated[tuple[Market, ...], PlainValidator(_markets)] = (Market.ON_DEMAND,)
    quota: Annotated[
        dict[str, Annotated[dict[Market | None, int | None], PlainValidator(_quota)]],
        BeforeValidator(_some_types),
    ] = Field(default_factory=dict)
    vcpu_quota: Annotated[tuple[PoolEntry, ...], PlainValidator(_vcpu_quota)] = ()
    prices: dict[str, Annotated[dict[Market, float], PlainValidator(_prices)]] = Field(
        default_factory=dict
    )
    types: tuple[_DeclaredFile, ...] = Field(default=(), strict=False)
    prefer: tuple[Name, ...] = Field(default=(), strict=False)
    reserved: tuple[_ReservedFile, ...] = Field(default=(), strict=False)
    owned: tuple[_OwnedFile, ...] = Field(default=(), strict=False)


def supply_of(part: OffersPart, now: datetime) -> SupplyRequest:
    """Returns what a job file's offers ask for.

    Args:
        part: the offers.
        now: the time from which the ends of reservations count.

    Raises:
        InputError: a declared type, a reservation or a machine is impossible; all are reported.
    """
    problems: list[Problem] = []

    def make(where: str, build: Callable[[], _T]) -> _T | None:
        try:
            return build()
        except InputError as error:
            problems.extend(Problem(where, problem.message) for problem in error.problems)
            return None

    declared = [
        make(f"offers.types.{index}", lambda d=entry: _declared(d, part.cloud))
        for index, entry in enumerate(part.types)
    ]
    reserved = [
        make(f"offers.reserved.{index}", lambda r=entry: _reserved(r, now))
        for index, entry in enumerate(part.reserved)
    ]
    owned = [
        make(f"offers.owned.{index}", lambda o=entry: _owned(o))
        for index, entry in enumerate(part.owned)
    ]
    known = {*part.quota, *(entry.type for entry in part.reserved)}
    known |= {entry.name for entry in part.owned}
    problems += [
        Problem("offers.prefer", f"{name} is not among the offers ({', '.join(sorted(known))})")
        for name in part.prefer
        if name not in known
    ]
    request = make(
        "offers",
        lambda: SupplyRequest(
            cloud=part.cloud,
            region=part.region,
            markets=part.markets,
            quota=tuple(
                QuotaEntry(name, market, vms)
                for name, by_market in part.quota.items()
                for market, vms in by_market.items()
            ),
            prices=tuple(
                PriceEntry(name, market, usd)
                for name, by_market in part.prices.items()
                for market, usd in by_market.items()
            ),
            declared=tuple(kind for kind in declared if kind is not None),
            vcpu_quota=part.vcpu_quota,
            zones=part.zones,
            reserved=tuple(entry for entry in reserved if entry is not None),
            owned=tuple(entry for entry in owned if entry is not None),
        ),
    )
    if problems or request is None:
        raise InputError(problems)
    return request


def _declared(entry: _DeclaredFile, cloud: str) -> InstanceType:
    return InstanceType(
        name=entry.name,
        cloud=cloud,
        gpu=entry.gpu,
        gpus=entry.gpus,
        gpu_memory_bytes=round(entry.gpu_memory_gib * GIB),
        vcpus=entry.vcpus,
        rated_gbit_per_s=entry.rated_gbit_per_s,
        cpu_vendor=entry.cpu_vendor,
        nvlink=entry.nvlink,
        source="declared in the job",
        burst_gbit_per_s=entry.burst_gbit_per_s,
        quota_pool=entry.quota_pool,
    )


def _reserved(entry: _ReservedFile, now: datetime) -> ReservedEntry:
    return ReservedEntry(
        instance_type=entry.type,
        count=entry.count,
        starts_in_s=(entry.start - now).total_seconds() if entry.start else 0.0,
        ends_in_s=(entry.end - now).total_seconds() if entry.end else None,
        usd_per_hour=entry.usd_per_hour,
        zone=entry.zone,
    )


def _owned(entry: _OwnedFile) -> OwnedEntry:
    memory = entry.gpu_memory_gib
    return OwnedEntry(
        name=entry.name,
        gpu=entry.gpu,
        gpus=entry.gpus,
        vcpus=entry.vcpus,
        count=entry.count,
        usd_per_hour=entry.usd_per_hour,
        gpu_memory_bytes=None if memory is None else round(memory * GIB),
        rated_gbit_per_s=entry.rated_gbit_per_s,
        cpu_vendor=entry.cpu_vendor,
        nvlink=entry.nvlink,
    )
