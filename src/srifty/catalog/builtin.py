"""The built-in tables: GPU models, instance types, prices and billing rules, with their sources."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from srifty.catalog.price import Price
from srifty.core.billing import BillingRule
from srifty.core.hardware import GpuModel, InstanceType
from srifty.core.offers import Market


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures of the built-in tables come from.

    Attributes:
        what: the figures.
        where: repository and commit, or page.
        date: ISO date, or a part of one; None where it is not known, and then `note` says why.
        note: what to know before relying on them; may be empty.
    """

    what: str
    where: str
    date: str | None
    note: str


@dataclass(frozen=True, slots=True)
class InterruptionBucket:
    """How many spot VMs of a type were taken back in a region.

    Attributes:
        low: share of VMs, at least.
        high: at most; None: no upper end is told.
        date: when it was told.
        source: where.
    """

    low: float
    high: float | None
    date: str
    source: str


@cache
def builtin_sources() -> dict[str, Source]:
    """Returns the sources of the built-in tables, by the key that the tables use."""
    return {key: Source(**entry) for key, entry in _load("sources.json").items()}


@cache
def builtin_gpus() -> dict[str, GpuModel]:
    """Returns the GPU models that Srifty knows, by name."""
    return {entry["name"]: GpuModel(**entry) for entry in _load("gpus.json")}


@cache
def builtin_instance_types() -> dict[str, InstanceType]:
    """Returns the instance types that Srifty knows, by name."""
    return {
        row["name"]: InstanceType(
            name=row["name"],
            cloud=row["cloud"],
            gpu=row["gpu"],
            gpus=int(row["gpus"]),
            gpu_memory_bytes=int(row["gpu_memory_bytes"]),
            vcpus=int(row["vcpus"]),
            rated_gbit_per_s=float(row["rated_gbit_per_s"]),
            cpu_vendor=row["cpu_vendor"] or None,
            nvlink=_flag(row["nvlink"]),
            burst_gbit_per_s=float(row["burst_gbit_per_s"]) if row["burst_gbit_per_s"] else None,
            efa=_flag(row["efa"]),
            placement_groups=_flag(row["placement_groups"]),
            quota_pool=row["quota_pool"] or None,
            source=_where(row["source"]),
        )
        for row in _rows("instance_types.csv")
    }


@cache
def builtin_prices() -> tuple[Price, ...]:
    """Returns the prices that Srifty knows: one a region, or one a zone where zones differ."""
    markets = {str(market): market for market in Market}
    # Read by position: a thousand rows as dicts take twice as long, at every start.
    rows = csv.reader(_text("prices.csv").splitlines())
    next(rows)
    return tuple(
        Price(cloud, name, markets[market], region, zone or None, float(usd), date, _where(keys))
        for cloud, name, market, region, zone, usd, date, keys in rows
    )


@cache
def builtin_interruptions() -> dict[tuple[str, str, str], InterruptionBucket]:
    """Returns how often spot VMs are taken back, by cloud, instance type and region."""
    return {
        (row["cloud"], row["instance_type"], row["region"]): InterruptionBucket(
            float(row["bucket_low"]),
            float(row["bucket_high"]) if row["bucket_high"] else None,
            row["date"],
            _where(row["source"]),
        )
        for row in _rows("interruptions.csv")
    }


@cache
def builtin_billing_rules() -> tuple[BillingRule, ...]:
    """Returns the billing rules that Srifty knows, of all providers and dates."""
    rules = (BillingRule(**entry) for entry in _load("billing.json"))
    return tuple(replace(rule, source=_where(rule.source)) for rule in rules)


@cache
def _where(keys: str) -> str:
    """Returns the places behind keys that are joined by `;`."""
    sources = builtin_sources()
    return "; ".join(sources[key].where for key in keys.split(";"))


def _flag(cell: str) -> bool | None:
    return cell == "true" if cell else None


def _load(name: str) -> Any:
    return json.loads(_text(name))


def _rows(name: str) -> Iterator[dict[str, str]]:
    return csv.DictReader(_text(name).splitlines())


def _text(name: str) -> str:
    return resources.files("srifty").joinpath("data", name).read_text(encoding="utf-8")
