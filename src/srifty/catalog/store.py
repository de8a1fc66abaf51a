"""The user's own catalog: prices, instance types and quotas that were imported or fetched.

Three CSV files side by side: prices in the file that `SRIFTY_CATALOG` names (default: `catalog.csv`
in the user's data folder), `catalog-types.csv` and `catalog-quotas.csv` beside it. They are plain
files on purpose: to be read, edited and kept under version control.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from srifty.catalog._table import Row, exclusive, raise_problems, read_rows, write_rows
from srifty.catalog.price import Price
from srifty.catalog.sanity import MOST_USD_PER_GPU_HOUR, parse_number
from srifty.core.offers import Market
from srifty.errors import InputError, Problem

_VARIABLE = "SRIFTY_CATALOG"
_PRICE_COLUMNS = (
    "cloud", "instance_type", "market", "region", "zone", "usd_per_hour", "date", "source",
)  # fmt: skip
_TYPE_COLUMNS = ("cloud", "name", "gpu", "gpus", "gpu_memory_bytes", "vcpus", "source")
_RATED = "rated_gbit_per_s"
_QUOTA_COLUMNS = ("cloud", "region", "pool", "market", "vcpus", "date", "source")
_RENTED = (Market.ON_DEMAND, Market.SPOT)
_MOST_USD_PER_HOUR = 64 * MOST_USD_PER_GPU_HOUR  # no VM has more GPUs


@dataclass(frozen=True, slots=True)
class TypeRow:
    """An instance type that an import or a cloud told us of.

    Attributes:
        cloud: the provider.
        name: the cloud's name of the type.
        gpu: name of the GPU model, as profiles use it.
        gpus: GPUs in one VM.
        gpu_memory_bytes: memory of each GPU.
        vcpus: virtual CPUs of the VM.
        source: where the facts come from.
        rated_gbit_per_s: sustained network speed; None where unknown: a job that plans with the
            type then has to state it under `offers.types`.
    """

    cloud: str
    name: str
    gpu: str
    gpus: int
    gpu_memory_bytes: int
    vcpus: int
    source: str
    rated_gbit_per_s: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What tells a type from others."""
        return (self.cloud, self.name)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """How many vCPUs an account may run at a time.

    Attributes:
        cloud: the provider.
        region: the region it holds for.
        pool: the pool that instance types share, `G` or `P`.
        market: on-demand or spot: separate pools.
        vcpus: vCPUs that may run at a time; 0 for many new accounts.
        date: ISO time, with its zone, at which it was true.
        source: where it comes from.
    """

    cloud: str
    region: str
    pool: str
    market: Market
    vcpus: int
    date: str
    source: str

    @property
    def key(self) -> tuple[str, str, str, Market]:
        """What tells a quota from others."""
        return (self.cloud, self.region, self.pool, self.market)


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of merging prices.

    Attributes:
        prices: all prices, sorted.
        added: how many keys are new.
        replaced: how many prices took the place of an older one.
        kept_newer: how many were left out because the catalog has a newer one.
        removed: how many left because their type was fetched anew and the zone is gone.
    """

    prices: tuple[Price, ...]
    added: int
    replaced: int
    kept_newer: int
    removed: int


def own_catalog_path() -> Path:
    """Returns where the user's own prices are: `SRIFTY_CATALOG`, or the user's data folder."""
    named = os.environ.get(_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "srifty" / "catalog.csv"


def types_path(prices: Path) -> Path:
    """Returns the file of instance types beside a file of prices."""
    return prices.with_name(f"{prices.stem}-types.csv")


def quotas_path(prices: Path) -> Path:
    """Returns the file of quotas beside a file of prices."""
    return prices.with_name(f"{prices.stem}-quotas.csv")


def read_prices(path: Path) -> tuple[Price, ...]:
    """Returns the prices of a file; none where there is no file.

    Raises:
        InputError: the file cannot be read, or has bad rows: each with its line.
    """
    return _read(path, "catalog of prices", _PRICE_COLUMNS, _price_of)


def read_types(path: Path) -> tuple[TypeRow, ...]:
    """Returns the instance types of a file; none where there is no file.

    Raises:
        InputError: the file cannot be read, or has bad rows: each with its line.
    """
    return _read(path, "catalog of instance types", _TYPE_COLUMNS, _type_of)


def read_quotas(path: Path) -> tuple[QuotaRow, ...]:
    """Returns the quotas of a file; none where there is no file.

    Raises:
        InputError: the file cannot be read, or has bad rows: each with its line.
    """
    return _read(path, "catalog of quotas", _QUOTA_COLUMNS, _quota_of)


def merge(old: Iterable[Price], new: Iterable[Price], *, whole: bool = False) -> Merged:
    """Returns the old prices with the new ones in the place of those with the same key.

    A price never replaces one that is newer than itself. Of two new ones with one key the later
    in the list wins.

    Args:
        old: the prices of the catalog.
        new: the prices to add.
        whole: the new ones are all there are of their types, markets and regions (a live answer),
            so that old ones of other zones leave.
    """
    rows = {row.key: row for row in old}
    arriving = {row.key: row for row in new}
    added = replaced = kept_newer = 0
    for key, row in arriving.items():
        before = rows.get(key)
        if before is not None and _moment(before.date) > _moment(row.date):
            kept_newer += 1
            continue
        added += before is None
        replaced += before is not None
        rows[key] = row
    gone: list[tuple[str, str, Market, str, str | None]] = []
    if whole:
        scopes: dict[tuple[str, str, Market, str], datetime] = {}
        for row in arriving.values():
            moment = _moment(row.date)
            scopes[row.scope] = min(moment, scopes.get(row.scope, moment))
        gone = [
            key
            for key, row in rows.items()
            if key not in arriving
            and row.scope in scopes
            and _moment(row.date) <= scopes[row.scope]
        ]
        for key in gone:
            del rows[key]
    ordered = sorted(rows.values(), key=lambda r: (*r.scope, r.zone or ""))
    return Merged(tuple(ordered), added, replaced, kept_newer, len(gone))


def add_prices(path: Path, new: Sequence[Price], *, whole: bool = False) -> Merged:
    """Merges prices into a file, safe under concurrent writers; see `merge`.

    Raises:
        InputError: the file has bad rows, or cannot be written; it is then left as it was.
    """
    with exclusive(path):
        merged = merge(read_prices(path), new, whole=whole)
        cells = (
            (
                row.cloud,
                row.instance_type,
                row.market.value,
                row.region,
                row.zone or "",
                repr(row.usd_per_hour),
                row.date,
                row.source,
            )
            for row in merged.prices
        )
        write_rows(path, _PRICE_COLUMNS, cells)
    return merged


def add_types(path: Path, new: Sequence[TypeRow]) -> None:
    """Merges instance types into a file; new ones replace those of the same name.

    A speed that the file knows stays where the new facts have none.

    Raises:
        InputError: the file has bad rows, or cannot be written; it is then left as it was.
    """
    with exclusive(path):
        rows = {row.key: row for row in read_types(path)}
        for row in new:
            before = rows.get(row.key)
            if before is not None and row.rated_gbit_per_s is None:
                row = replace(row, rated_gbit_per_s=before.rated_gbit_per_s)
            rows[row.key] = row
        cells = (
            (
                row.cloud,
                row.name,
                row.gpu,
                row.gpus,
                row.gpu_memory_bytes,
                row.vcpus,
                row.source,
                "" if row.rated_gbit_per_s is None else repr(row.rated_gbit_per_s),
            )
            for row in sorted(rows.values(), key=lambda r: r.key)
        )
        write_rows(path, (*_TYPE_COLUMNS, _RATED), cells)


def add_quotas(path: Path, new: Sequence[QuotaRow]) -> None:
    """Merges quotas into a file; new ones replace those of the same pool.

    Raises:
        InputError: the file has bad rows, or cannot be written; it is then left as it was.
    """
    with exclusive(path):
        rows = {row.key: row for row in (*read_quotas(path), *new)}
        cells = (
            (row.cloud, row.region, row.pool, row.market.value, row.vcpus, row.date, row.source)
            for row in sorted(rows.values(), key=lambda r: r.key)
        )
        write_rows(path, _QUOTA_COLUMNS, cells)


_T = TypeVar("_T")


def _read(
    path: Path, kind: str, columns: Sequence[str], convert: Callable[[Row], _T]
) -> tuple[_T, ...]:
    if not path.exists():
        return ()
    found: list[_T] = []
    problems: list[Problem] = []
    for row in read_rows(path, kind, columns):
        try:
            found.append(convert(row))
        except ValueError as error:
            problems.append(Problem(f"line {row.line}", str(error)))
    raise_problems(problems, path)
    return tuple(found)


def _price_of(row: Row) -> Price:
    cells = row.cells
    usd = parse_number(cells["usd_per_hour"])
    if usd is None or not 0 < usd <= _MOST_USD_PER_HOUR:
        raise ValueError(
            f"usd_per_hour must be above 0 and at most {_MOST_USD_PER_HOUR:,.0f}, not "
            f"{cells['usd_per_hour']!r} (machines that cost nothing go under offers.owned of a "
            "job)"
        )
    return Price(
        cloud=_text(row, "cloud"),
        instance_type=_text(row, "instance_type"),
        market=_market(row),
        region=_text(row, "region"),
        zone=cells["zone"] or None,
        usd_per_hour=usd,
        date=_date(row),
        source=cells["source"],
    )


def _type_of(row: Row) -> TypeRow:
    rated = row.cells.get(_RATED, "")
    speed = parse_number(rated) if rated else None
    if rated and (speed is None or not 0 < speed < math.inf):
        raise ValueError(f"{_RATED} must be Gbit/s above 0, or empty, not {rated!r}")
    return TypeRow(
        cloud=_text(row, "cloud"),
        name=_text(row, "name"),
        gpu=_text(row, "gpu"),
        gpus=_count(row, "gpus", 1),
        gpu_memory_bytes=_count(row, "gpu_memory_bytes", 1),
        vcpus=_count(row, "vcpus", 1),
        source=row.cells["source"],
        rated_gbit_per_s=speed,
    )


def _quota_of(row: Row) -> QuotaRow:
    return QuotaRow(
        cloud=_text(row, "cloud"),
        region=_text(row, "region"),
        pool=_text(row, "pool"),
        market=_market(row),
        vcpus=_count(row, "vcpus", 0),
        date=_date(row),
        source=row.cells["source"],
    )


def _text(row: Row, column: str) -> str:
    if not row.cells[column]:
        raise ValueError(f"{column} is empty")
    return row.cells[column]


def _count(row: Row, column: str, least: int) -> int:
    text = row.cells[column]
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
        raise ValueError(f"{column} must be a whole number of at least {least}, not {text!r}")
    return int(text)


def _market(row: Row) -> Market:
    text = row.cells["market"]
    if text not in _RENTED:
        raise ValueError(f"market must be on-demand or spot, not {text!r}")
    return Market(text)


def _date(row: Row) -> str:
    text = row.cells["date"]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            "date must be an ISO time with its zone, such as 2026-07-20T12:00:00+00:00, "
            f"not {text!r}"
        )
    return text


def _moment(date: str) -> datetime:
    """Returns the time of a row; rows have valid ones by construction."""
    moment = datetime.fromisoformat(date)
    if moment.tzinfo is None:
        raise InputError(f"a price's date needs its zone, unlike {date!r}")
    return moment
