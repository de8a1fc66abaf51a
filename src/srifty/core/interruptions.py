"""How often the provider takes a VM away."""

from __future__ import annotations

import math
from dataclasses import dataclass

from srifty.core._checks import require_not_negative

# Standard normal quantile of 90 %: ranges are read as 10 to 90 %.
_Z90 = 1.2815515655446004


@dataclass(frozen=True, slots=True)
class InterruptionRate:
    """Reclaims per hour that a VM runs, and how well that is known.

    Attributes:
        per_hour: the median of what it may be; 0: never.
        spread: standard deviation of its natural logarithm; 0: it is known.
        source: where it comes from.
    """

    per_hour: float
    spread: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        require_not_negative("interruptions per hour", self.per_hour)
        require_not_negative("spread of interruptions", self.spread)

    @property
    def range_per_hour(self) -> tuple[float, float]:
        """The rates that it exceeds with 90 % and with 10 %."""
        factor = math.exp(self.spread * _Z90)
        return self.per_hour / factor, self.per_hour * factor


NEVER = InterruptionRate(0.0, source="never taken away")


def rate_between(low: float, high: float, source: str) -> InterruptionRate:
    """Returns the rate that lies between two positive ones with 80 %."""
    return InterruptionRate(math.sqrt(low * high), math.log(high / low) / (2 * _Z90), source)
