"""Which price holds for an instance type: the job's own, the user's catalog, the built-in table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from srifty.catalog.builtin import builtin_prices
from srifty.catalog.price import Price
from srifty.core.offers import Market
from srifty.core.supply import PriceEntry

STATED = "stated in the job"

# A zone's *name* (us-east-1a) means another place in each AWS account; only its id (use1-az4) is
# the same for all.
_ACCOUNT_ZONE = re.compile(r"[a-z]+(-[a-z]+)+-\d+[a-z]")


@dataclass(frozen=True, slots=True)
class Quote:
    """A price that holds for a type and market.

    Attributes:
        zone: the zone it holds for; None: the whole region.
        usd_per_hour: price of one VM for an hour.
        source: where it comes from.
        date: ISO date or time of the price, or a part of it; None where unknown or just stated.
    """

    zone: str | None
    usd_per_hour: float
    source: str
    date: str | None


class PriceBook:
    """The prices of one cloud's region.

    Args:
        cloud: the provider.
        region: the region.
        stated: prices that the job states; they replace all others.
        own: prices of the user's own catalog; they replace built-in ones of a type and market.
    """

    def __init__(
        self,
        cloud: str,
        region: str,
        stated: Sequence[PriceEntry] = (),
        own: Sequence[Price] = (),
    ) -> None:
        self._region = region
        self._all = [p for p in (*own, *builtin_prices()) if p.cloud == cloud]
        self._stated = {(price.instance_type, price.market): price for price in stated}
        self._own = _by_key(own, cloud, region)
        self._builtin = _by_key(builtin_prices(), cloud, region)

    def zones(self) -> list[str]:
        """Returns the zones of the region that some price is known for."""
        zones = {
            price.zone
            for prices in (*self._own.values(), *self._builtin.values())
            for price in prices
            if price.zone is not None and not _is_account_zone(price.zone)
        }
        return sorted(zones)

    def quotes(self, instance_type: str, market: Market) -> tuple[Quote, ...]:
        """Returns the prices of a type in a market: one for the region, or one a zone; or none."""
        key = (instance_type, market)
        if key in self._stated:
            return (Quote(None, self._stated[key].usd_per_hour, STATED, None),)
        prices = self._own.get(key) or self._builtin.get(key) or []
        by_account = [price for price in prices if _is_account_zone(price.zone)]
        if by_account:
            first = by_account[0]
            usd = median(price.usd_per_hour for price in by_account)
            source = f"median over {len(by_account)} zones of {first.source}"
            return (Quote(None, usd, source, first.date or None),)
        return tuple(
            Quote(price.zone, price.usd_per_hour, price.source, price.date or None)
            for price in prices
        )

    def elsewhere(self, instance_type: str, market: Market) -> tuple[str, ...]:
        """Returns the other regions in which a type has a price in a market."""
        return tuple(
            sorted(
                {
                    price.region
                    for price in self._all
                    if (price.instance_type, price.market) == (instance_type, market)
                    and price.region != self._region
                }
            )
        )


def _by_key(
    prices: Sequence[Price], cloud: str, region: str
) -> dict[tuple[str, Market], list[Price]]:
    groups: dict[tuple[str, Market], list[Price]] = {}
    for price in prices:
        if (price.cloud, price.region) == (cloud, region):
            groups.setdefault((price.instance_type, price.market), []).append(price)
    return groups


def _is_account_zone(zone: str | None) -> bool:
    return zone is not None and _ACCOUNT_ZONE.fullmatch(zone) is not None
