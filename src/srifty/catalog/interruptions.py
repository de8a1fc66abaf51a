"""How often spot VMs are taken back: AWS's buckets as rates, with what they leave open.

The Spot Instance Advisor tells the share of VMs that were taken back, not per which time they ran.
A share f of VMs that live L hours on average is a rate of −ln(1 − f)/L. L is not published; one day
is taken, right to a factor of e either way (one standard deviation): eight hours to three days.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from srifty.catalog.builtin import builtin_interruptions
from srifty.core.interruptions import InterruptionRate
from srifty.core.offers import Market, Offer
from srifty.units import format_duration

_LIFE_H = 24.0
_SPREAD = 1.0
# The share that is taken for the highest bucket, which has no upper end.
_HIGHEST = 0.25
_UNKNOWN = "not known; taken as AWS's highest bucket (above 20 %)"


def interruption_rate(cloud: str, instance_type: str, region: str) -> InterruptionRate:
    """Returns how often spot VMs of a type are taken back; as often as any where it is unknown."""
    bucket = builtin_interruptions().get((cloud, instance_type, region))
    if bucket is None:
        return _rate(_HIGHEST, _UNKNOWN)
    share = _HIGHEST if bucket.high is None else (bucket.low + bucket.high) / 2
    words = (
        f"above {bucket.low:.0%}"
        if bucket.high is None
        else f"{bucket.low:.0%} to {bucket.high:.0%}"
    )
    return _rate(share, f"AWS Spot Instance Advisor {bucket.date}: {words} taken back")


def _rate(share: float, source: str) -> InterruptionRate:
    return InterruptionRate(-math.log1p(-share) / _LIFE_H, _SPREAD, source)


def interruption_notes(offers: Sequence[Offer]) -> tuple[str, ...]:
    """Returns how often each spot type of a plan is assumed to be taken back, in full sentences."""
    sentences: list[str] = []
    for offer in dict.fromkeys(offers):
        rate = offer.interruptions
        if offer.market is not Market.SPOT:
            continue
        if rate.per_hour == 0:
            sentences.append(f"{offer.label} is never taken back ({rate.source}).")
            continue
        low, high = rate.range_per_hour
        between = f", {low:.2g} to {high:.2g} with 80 %" if rate.spread else ""
        sentences.append(
            f"{offer.label} is taken back {rate.per_hour:.2g} times per VM-hour{between}: every "
            f"{format_duration(3600 / rate.per_hour)} ({rate.source})."
        )
    return tuple(dict.fromkeys(sentences))
