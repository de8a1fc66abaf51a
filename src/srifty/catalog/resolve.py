"""From what a job asks for to offers with prices and quotas."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from statistics import median

from srifty.catalog.builtin import Price, builtin_instance_types, builtin_prices
from srifty.core.hardware import InstanceType
from srifty.core.offers import Location, Market, Offer
from srifty.core.supply import SupplyRequest
from srifty.errors import InputError, Problem

_STATED = "stated in the job"


@dataclass(frozen=True)
class Resolved:
    """The offers of a request.

    Attributes:
        offers: what can be rented.
        notes: what could not be had, and how old prices are; full sentences.
    """

    offers: tuple[Offer, ...]
    notes: tuple[str, ...]


def resolve(request: SupplyRequest) -> Resolved:
    """Returns the offers of a request: the quota's types in its markets, with their prices.

    A type without a price in one of several markets is left out there and named in the notes; it
    is never silently offered in another market.

    Raises:
        InputError: unknown instance types, a type without any price, or no offer at all; all are
            reported together.
    """
    known = builtin_instance_types() | {kind.name: kind for kind in request.declared}
    listed = _listed(request.region)
    location = Location(request.region)
    problems = [
        Problem(f"offers.prices.{name}", _unknown(name, known))
        for name in dict.fromkeys(price.instance_type for price in request.prices)
        if name not in known
    ]
    offers: list[Offer] = []
    notes: list[str] = []
    unasked: list[Problem] = []
    asked = ", ".join(request.markets)
    for name in dict.fromkeys(entry.instance_type for entry in request.quota):
        kind = known.get(name)
        if kind is None:
            problems.append(Problem(f"offers.quota.{name}", _unknown(name, known)))
            continue
        if kind.cloud != request.cloud:
            problems.append(
                Problem(f"offers.quota.{name}", f"is {kind.cloud}'s, not {request.cloud}'s")
            )
            continue
        found, missing = _offers_of(kind, request, location, listed)
        offers += found
        if not found and missing:
            problems.append(
                Problem(
                    f"offers.quota.{name}",
                    f"has no {' or '.join(missing)} price in {request.region}; state one: "
                    f"offers.prices: {{{name}: {{{missing[0]}: 1.23}}}}",
                )
            )
        elif not found:
            unasked.append(
                Problem(
                    f"offers.quota.{name}",
                    f"has a quota in other markets than offers.markets ({asked}) alone: not "
                    "offered.",
                )
            )
        elif missing:
            notes.append(
                f"{name} has no {' or '.join(missing)} price in {request.region}: not offered "
                "there."
            )
    if problems or not offers:
        raise InputError([*problems, *unasked])
    notes += map(str, unasked)
    return Resolved(tuple(offers), tuple(notes) + _price_notes(offers))


def _listed(region: str) -> dict[tuple[str, Market], Price]:
    """Returns one built-in price per type and market: the region's, or the median of its zones."""
    groups: dict[tuple[str, Market], list[Price]] = {}
    for price in builtin_prices():
        if price.region == region:
            groups.setdefault((price.instance_type, price.market), []).append(price)
    return {
        key: replace(prices[0], zone=None, usd_per_hour=median(p.usd_per_hour for p in prices))
        for key, prices in groups.items()
    }


def _offers_of(
    kind: InstanceType,
    request: SupplyRequest,
    location: Location,
    listed: dict[tuple[str, Market], Price],
) -> tuple[list[Offer], list[str]]:
    """Returns a type's offers and the markets in which it has a quota but no price."""
    by_market: dict[Market, int] = {}
    for entry in request.quota:
        if entry.instance_type == kind.name:
            for market in request.markets if entry.market is None else (entry.market,):
                if market in request.markets:
                    by_market[market] = entry.vms
    offers: list[Offer] = []
    missing: list[str] = []
    own = {price.market: price for price in request.prices if price.instance_type == kind.name}
    for market, vms in by_market.items():
        if market in own:
            usd, source, date = own[market].usd_per_hour, _STATED, None
        elif (kind.name, market) in listed:
            price = listed[kind.name, market]
            usd, source, date = price.usd_per_hour, price.source, price.date
        else:
            missing.append(str(market))
            continue
        offers.append(Offer(kind, market, location, usd, vms, source, date))
    return offers, missing


def _unknown(name: str, known: dict[str, InstanceType]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {', '.join(close)}?" if close else "."
    return f"unknown instance type{hint} Types of your own go under offers.types"


def _price_notes(offers: list[Offer]) -> tuple[str, ...]:
    """Returns the age of the built-in prices that are used."""
    listed = [offer for offer in offers if offer.price_source != _STATED]
    if not listed:
        return ()
    dates = sorted({offer.price_date or "undated" for offer in listed})
    return (
        f"Built-in prices are snapshots ({', '.join(dates)}); state current ones under "
        "offers.prices.",
    )
