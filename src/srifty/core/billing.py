"""How a provider bills: dated rules, and what a run costs under them."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import require_not_negative


@dataclass(frozen=True, slots=True)
class BillingRule:
    """A provider's rule for VMs, from a date on.

    A VM is billed from running to stop; a launch that fails is free.

    Attributes:
        provider: `aws`, `gcp`, ...; `own` for machines of the user's.
        since: ISO date from which the rule holds.
        granularity_s: billed time is rounded up to a multiple of this.
        minimum_s: least billed time of a VM that ran.
        spot_free_s: a spot VM that the provider takes back within this time of running is free.
        cross_zone_usd_per_gb: price of a gigabyte (1e9 B) that crosses zones, both directions.
        disk_usd_per_gb_month: price of block storage, per gigabyte and month of 730 hours.
        source: where the rule is stated.
    """

    provider: str
    since: str
    granularity_s: float = 1.0
    minimum_s: float = 60.0
    spot_free_s: float = 0.0
    cross_zone_usd_per_gb: float = 0.0
    disk_usd_per_gb_month: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in (
            "granularity_s",
            "minimum_s",
            "spot_free_s",
            "cross_zone_usd_per_gb",
            "disk_usd_per_gb_month",
        ):
            require_not_negative(f"billing rule of {self.provider}: {name}", getattr(self, name))


PER_SECOND = BillingRule("any", "2017-10-02", source="default: per second, at least a minute")
UNBILLED = BillingRule("own", "1970-01-01", granularity_s=0.0, minimum_s=0.0, source="no bill")
