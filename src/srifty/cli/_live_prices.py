"""What VMs cost at launch: asked of the cloud or read from a file, beside what was planned with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from srifty.catalog import aws
from srifty.catalog.price import Price
from srifty.catalog.store import read_prices
from srifty.control.planning import Planning
from srifty.core.offers import Market, Offer
from srifty.errors import CloudRefused, InputError
from srifty.units import format_usd

ASK_AWS, OFF = "aws", "off"
# A plan that costs more than so many times what was planned is asked about again.
MOST_RISE = 1.05


def prices_now(
    choice: str | None, offers: Sequence[Offer], *, backend: str, tell: Callable[[str], None]
) -> tuple[Price, ...]:
    """Returns what the cloud charges now; nothing where that cannot be known, which is told.

    Args:
        choice: a file in the catalog's format, `aws`, or `off`; None: AWS is asked where VMs of its
            are to be rented, which the local back end does not do.
        offers: what may be rented.
        backend: name of the back end.
        tell: takes a line for people.

    Raises:
        InputError: the file cannot be read.
    """
    if choice is None:
        is_aws = any(offer.instance_type.cloud == "aws" for offer in offers)
        choice = ASK_AWS if is_aws and backend != "local" else OFF
    if choice == OFF:
        return ()
    if choice != ASK_AWS:
        return read_prices(Path(choice))
    return _from_aws(offers, tell)


def _from_aws(offers: Sequence[Offer], tell: Callable[[str], None]) -> tuple[Price, ...]:
    rented = [
        offer
        for offer in offers
        if offer.instance_type.cloud == "aws" and offer.market in (Market.SPOT, Market.ON_DEMAND)
    ]
    found: list[Price] = []
    for region in dict.fromkeys(offer.location.region for offer in rented):
        known = {o.instance_type.name: o.instance_type for o in rented}
        types = sorted({o.instance_type.name for o in rented if o.location.region == region})
        try:
            answer = aws.refresh(region, types, now=datetime.now(UTC), known=known)
        except (CloudRefused, InputError) as error:
            tell(f"Today's prices are not known, the catalog's count: {error}")
            continue
        found += answer.prices
        for failure in answer.failures:
            tell(f"No price today for {failure.part} ({failure.reason}): the catalog's counts.")
    return tuple(found)


def at_prices(planning: Planning, prices: Sequence[Price]) -> Planning:
    """Returns a planning whose offers cost what is charged now; what is not known stays."""
    now = {(p.region, p.zone, p.instance_type, p.market): p for p in prices}

    def offered(offer: Offer) -> Offer:
        place, kind = offer.location, offer.instance_type.name
        for zone in (place.zone, None):
            price = now.get((place.region, zone, kind, offer.market))
            if price is not None:
                return replace(
                    offer,
                    usd_per_hour=price.usd_per_hour,
                    price_source=price.source,
                    price_date=price.date,
                )
        return offer

    return replace(planning, offers=tuple(map(offered, planning.offers)))


def differences(before: Sequence[Offer], after: Sequence[Offer]) -> list[str]:
    """Returns a line for each offer that costs something else by now."""
    return [
        f"{new.label} in {new.location}: {format_usd(old.usd_per_hour)} per hour in the catalog, "
        f"{format_usd(new.usd_per_hour)} per hour now"
        for old, new in zip(before, after, strict=True)
        if old.usd_per_hour != new.usd_per_hour
    ]


def price_records(prices: Sequence[Price]) -> list[dict[str, Any]]:
    """Returns prices as JSON values."""
    return [asdict(price) for price in prices]


def read_price_records(records: Sequence[Mapping[str, Any]]) -> tuple[Price, ...]:
    """Returns the prices that `price_records` described."""
    found: list[Price] = []
    for record in records:
        fields: dict[str, Any] = dict(record) | {"market": Market(record["market"])}
        found.append(Price(**fields))
    return tuple(found)
