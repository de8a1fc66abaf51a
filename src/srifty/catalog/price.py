"""A price, of the built-in table or of the user's own catalog."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core.offers import Market


@dataclass(frozen=True, slots=True)
class Price:
    """A price of one VM.

    Attributes:
        cloud: the provider, `aws`.
        instance_type: the type's name.
        market: on-demand or spot.
        region: the region it holds for.
        zone: the zone it holds for; None: for every zone of the region without one of its own.
        usd_per_hour: price of one VM for an hour, above 0.
        date: ISO date or time, or a part of it, at which the price was true; empty where unknown.
        source: where it comes from.
    """

    cloud: str
    instance_type: str
    market: Market
    region: str
    zone: str | None
    usd_per_hour: float
    date: str
    source: str

    @property
    def key(self) -> tuple[str, str, Market, str, str | None]:
        """What tells a price from others; a newer one replaces it."""
        return (self.cloud, self.instance_type, self.market, self.region, self.zone)

    @property
    def scope(self) -> tuple[str, str, Market, str]:
        """The key without the zone: all prices of a type in a market and region."""
        return (self.cloud, self.instance_type, self.market, self.region)
