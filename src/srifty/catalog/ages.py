"""What to mind about the prices that a plan rests on: their age, and spot above on-demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from srifty.catalog.builtin import builtin_prices
from srifty.catalog.quotes import STATED
from srifty.catalog.sanity import PriceFlag, check_price
from srifty.core.offers import Market, Offer
from srifty.core.plan import Plan
from srifty.units import format_usd

# Spot falls to about a tenth of on-demand at times, never to a twentieth.
_SUSPICIOUS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class PriceNote:
    """A price that a plan rests on.

    Attributes:
        label: the offer, for people.
        line: price, age and source in one line.
        warnings: what to mind about it, in full sentences.
    """

    label: str
    line: str
    warnings: tuple[str, ...]


def price_notes(
    used: Sequence[Offer], on_demand_usd: Mapping[str, float], now: datetime
) -> tuple[PriceNote, ...]:
    """Returns a note for each offer that a plan uses.

    Args:
        used: the offers of the plan.
        on_demand_usd: on-demand prices per hour by instance type, to compare with.
        now: the time at which ages count, with its zone.
    """
    return tuple(_note(offer, on_demand_usd, now) for offer in dict.fromkeys(used))


def spot_cost_range_usd(
    plan: Plan, on_demand_usd: Mapping[str, float]
) -> tuple[float, float] | None:
    """Returns the expected bill at the plan's prices, and were spot to rise to on-demand prices.

    None without spot VMs, or where an on-demand price is not known.

    Args:
        plan: the plan.
        on_demand_usd: on-demand prices per hour by instance type.
    """
    groups = plan.config.groups
    spot = [group for group in groups if group.offer.market is Market.SPOT]
    if not spot or any(g.offer.instance_type.name not in on_demand_usd for g in spot):
        return None
    rise = sum(
        group.count
        * max(on_demand_usd[group.offer.instance_type.name] - group.offer.usd_per_hour, 0.0)
        for group in spot
    )
    mean = plan.forecast.cost_usd.mean
    hourly = (mean - plan.forecast.traffic_usd) / max(plan.config.usd_per_hour, 1e-300)
    return mean, mean + rise * hourly


def _note(offer: Offer, on_demand_usd: Mapping[str, float], now: datetime) -> PriceNote:
    per_hour = f"{format_usd(offer.usd_per_hour)} per hour"
    name = f"{offer.label} in {offer.location}" if offer.location.region else offer.label
    if offer.price_source == STATED:
        return PriceNote(name, f"{name}: {per_hour}, {STATED}", ())
    on_demand = on_demand_usd.get(offer.instance_type.name)
    check = check_price(
        offer.usd_per_hour,
        gpus=offer.instance_type.gpus,
        market=offer.market,
        now=now,
        date=offer.price_date,
        on_demand_usd_per_hour=on_demand,
    )
    warnings: list[str] = []
    usual = _usual_usd(offer)
    if usual is not None and offer.usd_per_hour < _SUSPICIOUS_SHARE * usual:
        warnings.append(
            f"The price of {name} ({per_hour}) is below a twentieth of the lowest on-demand price "
            f"known ({usual:g} USD): check it before renting."
        )
    if not check.accepted:
        warnings.append(f"The price of {name} cannot be right ({per_hour}): {check.reason}.")
    if PriceFlag.SPOT_NOT_CHEAPER in check.flags:
        warnings.append(f"Spot is not cheaper than on-demand for {name} ({per_hour}).")
    if {PriceFlag.STALE, PriceFlag.UNDATED} & set(check.flags):
        moves = "Spot prices move by the hour" if offer.market is Market.SPOT else "Prices change"
        warnings.append(
            f"The price of {name} is a snapshot ({check.age}). {moves}: {_remedy(offer)}, or state "
            "current ones under offers.prices."
        )
    return PriceNote(
        name, f"{name}: {per_hour}, {check.age} ({offer.price_source})", tuple(warnings)
    )


def _usual_usd(offer: Offer) -> float | None:
    """Returns the lowest built-in on-demand price of a type in any region; None where unknown."""
    kind = offer.instance_type
    prices = [
        price.usd_per_hour
        for price in builtin_prices()
        if price.instance_type == kind.name
        and price.cloud == kind.cloud
        and price.market is Market.ON_DEMAND
    ]
    return min(prices, default=None)


def _remedy(offer: Offer) -> str:
    """Returns how current prices of an offer's cloud can be had."""
    if offer.instance_type.cloud == "aws":
        return "fetch current ones with srifty catalog refresh or import"
    return "bring current ones with srifty catalog import"
