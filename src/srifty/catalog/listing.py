"""Built-in and own prices side by side, each with its age and what to mind about it. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from srifty.catalog.price import Price
from srifty.catalog.sanity import PriceCheck, check_price
from srifty.catalog.store import QuotaRow, TypeRow
from srifty.core.hardware import InstanceType
from srifty.core.offers import Market
from srifty.errors import InputError


@dataclass(frozen=True, slots=True)
class ListedType:
    """An instance type of the built-in tables or the user's own.

    Attributes:
        cloud: the provider.
        name: the cloud's name.
        gpu: name of the GPU model.
        gpus: GPUs in one VM.
        gpu_memory_bytes: memory of each GPU.
        vcpus: virtual CPUs of the VM.
        rated_gbit_per_s: sustained network speed; None where unknown.
        source: where the facts come from.
        own: whether it is of the user's own catalog.
    """

    cloud: str
    name: str
    gpu: str
    gpus: int
    gpu_memory_bytes: int
    vcpus: int
    rated_gbit_per_s: float | None
    source: str
    own: bool

    @property
    def pool(self) -> str | None:
        """The pool of vCPUs at AWS, by the letter of the family; None elsewhere."""
        if self.cloud != "aws":
            return None
        return {"g": "G", "v": "G", "p": "P"}.get(self.name[:1])


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A price with what is known around it.

    Attributes:
        cloud: the provider.
        instance_type: the type's name.
        kind: the type; None where nothing is known of it.
        market: on-demand or spot.
        region: the region.
        zone: the zone; None where it holds for the region.
        usd_per_hour: price of one VM for an hour.
        date: when it was true; None where undated.
        source: where it comes from.
        own: whether it is of the user's own catalog.
        check: whether it can be used, its flags and its age.
    """

    cloud: str
    instance_type: str
    kind: ListedType | None
    market: Market
    region: str
    zone: str | None
    usd_per_hour: float
    date: str | None
    source: str
    own: bool
    check: PriceCheck


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which prices to list; an empty field takes all.

    Attributes:
        cloud: the provider.
        region: the region.
        gpu: name of the GPU model, in any case.
        market: on-demand or spot.
        types: names of instance types.
    """

    cloud: str = ""
    region: str = ""
    gpu: str = ""
    market: Market | None = None
    types: tuple[str, ...] = field(default=())

    def takes(self, price: Price, kind: ListedType | None) -> bool:
        """Returns whether a price is wanted."""
        return (
            (not self.cloud or price.cloud == self.cloud)
            and (not self.region or price.region == self.region)
            and (self.market is None or price.market is self.market)
            and (not self.types or price.instance_type in self.types)
            and (not self.gpu or (kind is not None and kind.gpu.lower() == self.gpu.lower()))
        )


def listed_types(
    builtin: Mapping[str, InstanceType], own: Iterable[TypeRow]
) -> dict[tuple[str, str], ListedType]:
    """Returns the instance types by cloud and name; the built-in facts win over imported ones."""
    types = {
        row.key: ListedType(
            row.cloud,
            row.name,
            row.gpu,
            row.gpus,
            row.gpu_memory_bytes,
            row.vcpus,
            row.rated_gbit_per_s,
            row.source,
            own=True,
        )
        for row in own
    }
    for kind in builtin.values():
        types[kind.cloud, kind.name] = ListedType(
            kind.cloud,
            kind.name,
            kind.gpu,
            kind.gpus,
            kind.gpu_memory_bytes,
            kind.vcpus,
            kind.rated_gbit_per_s,
            kind.source,
            own=False,
        )
    return types


def listed_prices(
    builtin: Iterable[Price],
    own: Iterable[Price],
    types: Mapping[tuple[str, str], ListedType],
    wanted: Wanted,
    now: datetime,
) -> tuple[ListedPrice, ...]:
    """Returns the wanted prices, sorted by type, market and place.

    The user's own prices of a type in a market and region stand for the built-in ones there.
    """
    mine = tuple(own)
    scopes = {row.scope for row in mine}
    rows = [(row, True) for row in mine]
    rows += [(row, False) for row in builtin if row.scope not in scopes]
    on_demand = {
        (row.cloud, row.instance_type, row.region, row.zone): row.usd_per_hour
        for row, _ in rows
        if row.market is Market.ON_DEMAND
    }
    found: list[ListedPrice] = []
    for row, is_own in rows:
        kind = types.get((row.cloud, row.instance_type))
        if not wanted.takes(row, kind):
            continue
        place = (row.cloud, row.instance_type, row.region)
        check = check_price(
            row.usd_per_hour,
            gpus=kind.gpus if kind else 1,
            market=row.market,
            now=now,
            date=row.date or None,
            on_demand_usd_per_hour=on_demand.get((*place, row.zone), on_demand.get((*place, None))),
        )
        found.append(
            ListedPrice(
                row.cloud,
                row.instance_type,
                kind,
                row.market,
                row.region,
                row.zone,
                row.usd_per_hour,
                row.date or None,
                row.source,
                is_own,
                check,
            )
        )
    return tuple(
        sorted(
            found,
            key=lambda p: (p.cloud, p.instance_type, p.region, p.market.value, p.zone or ""),
        )
    )


def find_type(
    name: str, cloud: str, types: Mapping[tuple[str, str], ListedType]
) -> tuple[ListedType, ...]:
    """Returns the types of a name, one per cloud that has it.

    Raises:
        InputError: there is none; similar names are told.
    """
    found = tuple(
        kind for kind in types.values() if kind.name == name and cloud in ("", kind.cloud)
    )
    if not found:
        names = sorted({kind.name for kind in types.values()})
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else "see: srifty catalog list"
        raise InputError(f"unknown instance type {name!r}; {hint}", "TYPE")
    return found


def vms_within(quota: QuotaRow, types: Iterable[ListedType]) -> dict[str, int]:
    """Returns how many VMs of each type of the pool a quota holds, if it holds nothing else."""
    spot_p = quota.market is Market.SPOT and quota.pool in ("P", "P5")
    return {
        kind.name: quota.vcpus // kind.vcpus
        for kind in types
        if kind.cloud == quota.cloud
        and kind.pool == quota.pool[:1]
        and not (spot_p and kind.name.startswith("p5") != (quota.pool == "P5"))
    }
