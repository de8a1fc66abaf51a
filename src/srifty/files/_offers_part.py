"""The `offers` of a job file: what may be rented, where, how often."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from srifty.core._checks import MOST_BYTES
from srifty.core.hardware import InstanceType
from srifty.core.interruptions import InterruptionRate
from srifty.core.offers import Market
from srifty.core.supply import (
    InterruptionEntry,
    OwnedEntry,
    PriceEntry,
    QuotaEntry,
    ReservedEntry,
    SupplyRequest,
)
from srifty.errors import InputError, Problem
from srifty.files._fields import Moment
from srifty.files._reading import Count, FileModel, Name
from srifty.files._supply_fields import (
    MOST_USD,
    Interruptions,
    Markets,
    Prices,
    Quota,
    VcpuQuota,
    Zones,
)
from srifty.files.interruptions_csv import read_interruptions
from srifty.units import GIB

_T = TypeVar("_T")


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
    usd_per_hour: float = Field(default=0.0, ge=0, le=MOST_USD)
    zone: Name | None = None


class _OwnedFile(FileModel):
    """Machines of the user's own."""

    name: Name
    gpu: Name
    gpus: Count
    vcpus: Count
    count: Count
    usd_per_hour: float = Field(default=0.0, ge=0, le=MOST_USD)
    gpu_memory_gib: float | None = Field(default=None, gt=0, le=MOST_BYTES / GIB)
    rated_gbit_per_s: float | None = Field(default=None, gt=0)
    cpu_vendor: Name | None = None
    nvlink: bool | None = None


class OffersPart(FileModel):
    """What may be rented."""

    cloud: Name = "aws"
    region: Name = "us-east-1"
    zones: Zones = ()
    allow_cross_zone: bool = False
    markets: Markets = (Market.ON_DEMAND,)
    quota: Quota = Field(default_factory=dict)
    vcpu_quota: VcpuQuota = ()
    prices: Prices = Field(default_factory=dict)
    interruptions: Interruptions = Field(default_factory=dict)
    types: tuple[_DeclaredFile, ...] = Field(default=(), strict=False)
    prefer: tuple[Name, ...] = Field(default=(), strict=False)
    reserved: tuple[_ReservedFile, ...] = Field(default=(), strict=False)
    owned: tuple[_OwnedFile, ...] = Field(default=(), strict=False)


def supply_of(part: OffersPart, now: datetime, folder: Path) -> SupplyRequest:
    """Returns what a job file's offers ask for.

    Args:
        part: the offers.
        now: the time from which the ends of reservations count.
        folder: where the files lie that it names.

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
    interruptions = [
        make(f"offers.interruptions.{name}", lambda n=name, r=rate: _interruptions(n, r, folder))
        for name, rate in part.interruptions.items()
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
            interruptions=tuple(entry for entry in interruptions if entry is not None),
        ),
    )
    if problems or request is None:
        raise InputError(problems)
    return request


def _interruptions(name: str, rate: InterruptionRate | str, folder: Path) -> InterruptionEntry:
    if isinstance(rate, InterruptionRate):
        return InterruptionEntry(name, rate)
    try:
        return InterruptionEntry(name, read_interruptions(folder / rate))
    except InputError as error:
        raise InputError([Problem("", f"{error.source}: {p}") for p in error.problems]) from None


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
    if entry.start is not None and entry.end is not None and entry.end <= entry.start:
        raise InputError(f"ends ({entry.end}) before it starts ({entry.start})")
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
