"""The built-in tables: GPU models, instance types and prices, each figure with its source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from srifty.core.hardware import GpuModel, InstanceType
from srifty.core.offers import Market


@dataclass(frozen=True, slots=True)
class Price:
    """A price in the built-in table.

    Attributes:
        instance_type: the type's name.
        market: the market it holds for.
        region: the region it holds for.
        usd_per_hour: price of one VM for an hour.
        source: where it comes from.
        date: ISO date, or a part of one; None where the source does not say.
    """

    instance_type: str
    market: Market
    region: str
    usd_per_hour: float
    source: str
    date: str | None


def _load(name: str) -> Any:
    text = resources.files("srifty").joinpath("data", name).read_text(encoding="utf-8")
    return json.loads(text)


@cache
def builtin_gpus() -> dict[str, GpuModel]:
    """Returns the GPU models that Srifty knows, by name."""
    return {entry["name"]: GpuModel(**entry) for entry in _load("gpus.json")}


@cache
def builtin_instance_types() -> dict[str, InstanceType]:
    """Returns the instance types that Srifty knows, by name."""
    entries = _load("offers.json")["instance_types"]
    return {entry["name"]: InstanceType(**entry) for entry in entries}


@cache
def builtin_prices() -> tuple[Price, ...]:
    """Returns the prices that Srifty knows."""
    return tuple(
        Price(
            instance_type=entry["instance_type"],
            market=Market(entry["market"]),
            region=entry["region"],
            usd_per_hour=entry["usd_per_hour"],
            source=entry["source"],
            date=entry["date"],
        )
        for entry in _load("offers.json")["prices"]
    )
