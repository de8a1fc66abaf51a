"""Fields of a job file's `offers`: markets, zones, quotas and prices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, PlainValidator

from srifty.core._checks import MOST_ITEMS
from srifty.core.interruptions import InterruptionRate, rate_between
from srifty.core.offers import Market
from srifty.core.supply import PoolEntry
from srifty.files._reading import shown

MOST_USD = 1e9
# A VM that is lost every second.
_MOST_PER_HOUR = 3600.0
_RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:\s*-\s*(\d+(?:\.\d*)?|\.\d+))?\s*/\s*h", re.ASCII)
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST_USD:
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


def _vcpu_quota(value: Any) -> tuple[PoolEntry, ...] | None:
    if value == "catalog":
        return None
    if not isinstance(value, dict):
        raise ValueError(
            'must map pools to vCPUs, such as {"spot G": 120}, or be catalog (what srifty catalog '
            f"quota fetched), not {shown(value)}"
        )
    entries: list[PoolEntry] = []
    for name, vcpus in cast("dict[Any, Any]", value).items():
        market, family = _pool(name)
        if isinstance(vcpus, bool) or not isinstance(vcpus, int) or not 0 <= vcpus <= MOST_ITEMS:
            raise ValueError(f"{name}: must be a number of vCPUs (0 or more), not {shown(vcpus)}")
        entries.append(PoolEntry(market, family, vcpus))
    return tuple(entries)


def _rate(value: Any) -> InterruptionRate | str:
    """Returns a rate, or the name of the file that tells it."""
    if isinstance(value, str) and value.endswith(".csv"):
        return value
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
        low, high = float(match[1]), float(match[2] or match[1])
        if low == high and high <= _MOST_PER_HOUR:
            return InterruptionRate(low, 0.0, "stated in the job")
        if 0 < low < high <= _MOST_PER_HOUR:
            return rate_between(low, high, "stated in the job")
    raise ValueError(
        "must be losses per VM-hour, such as 0.05/h or 0.02-0.1/h (80 % sure), or a CSV file of VM "
        f"events, not {shown(value)}"
    )


Markets = Annotated[tuple[Market, ...], PlainValidator(_markets)]
Zones = Annotated[tuple[str, ...], PlainValidator(_zones)]
Quota = Annotated[
    dict[str, Annotated[dict[Market | None, int | None], PlainValidator(_quota)]],
    BeforeValidator(_some_types),
]
# None: the quotas of the user's own catalog.
VcpuQuota = Annotated[tuple[PoolEntry, ...] | None, PlainValidator(_vcpu_quota)]
Interruptions = dict[str, Annotated[InterruptionRate | str, PlainValidator(_rate)]]
Prices = dict[str, Annotated[dict[Market, float], PlainValidator(_prices)]]
