"""Whether a price can be believed, and how old it is. Pure: the clock is an argument."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from srifty.core.offers import Market

MOST_USD_PER_GPU_HOUR = 1000.0
LEAST_USD_PER_GPU_HOUR = 0.005
FRESH_FOR = {Market.SPOT: timedelta(hours=24), Market.ON_DEMAND: timedelta(days=30)}

_CLOCK_SKEW = timedelta(hours=1)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PARTIAL_DATE = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)


class PriceReason(StrEnum):
    """Why a price is not taken."""

    MISSING = "price is missing"
    NOT_A_NUMBER = "price is not a number"
    NEGATIVE = "price is negative"
    ZERO = "price is zero (sold by reservation only, or unknown)"
    TOO_HIGH = f"price is above {MOST_USD_PER_GPU_HOUR:.0f} USD per GPU and hour"
    TOO_LOW = f"price is below {LEAST_USD_PER_GPU_HOUR} USD per GPU and hour"


class PriceFlag(StrEnum):
    """What to mind about a price that is taken."""

    SPOT_NOT_CHEAPER = "spot is not cheaper than on-demand"
    STALE = "stale"
    UNDATED = "no exact date"


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """What came of checking a price.

    Attributes:
        usd_per_hour: the price of one VM; None where it is rejected.
        reason: why it is rejected; None where it is accepted.
        flags: what to mind about it.
        age: its age in words; empty where rejected.
    """

    usd_per_hour: float | None
    reason: PriceReason | None = None
    flags: tuple[PriceFlag, ...] = ()
    age: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the price can be used."""
        return self.reason is None


def parse_number(text: str) -> float | None:
    """Returns the number that a text stands for, plain or with an exponent; None where it is none.

    Stricter than `float`: no underscores, no words such as `inf` or `nan`, ASCII digits only.
    """
    stripped = text.strip()
    return float(stripped) if _NUMBER.fullmatch(stripped) else None


def judge_price(price: float | str | None, gpus: int, *, free: bool = False) -> float | PriceReason:
    """Returns the price in USD per hour, or the reason why it cannot be taken.

    Args:
        price: of one VM for an hour, as a number or as the text of a file.
        gpus: GPUs of the VM.
        free: zero is a price, not a gap.
    """
    if isinstance(price, str):
        if not price.strip():
            return PriceReason.MISSING
        price = parse_number(price)
        if price is None:
            return PriceReason.NOT_A_NUMBER
    if price is None:
        return PriceReason.MISSING
    if math.isnan(price):
        return PriceReason.NOT_A_NUMBER
    if price < 0:
        return PriceReason.NEGATIVE
    if price == 0:
        return price if free else PriceReason.ZERO
    per_gpu = price / gpus
    if per_gpu > MOST_USD_PER_GPU_HOUR:
        return PriceReason.TOO_HIGH
    if per_gpu < LEAST_USD_PER_GPU_HOUR:
        return PriceReason.TOO_LOW
    return price


def check_price(
    price: float | str | None,
    *,
    gpus: int,
    market: Market,
    now: datetime,
    date: str | None = None,
    on_demand_usd_per_hour: float | None = None,
    free: bool = False,
) -> PriceCheck:
    """Returns whether a price can be used and what to mind about it.

    Args:
        price: of one VM for an hour, as a number or as the text of a file.
        gpus: GPUs of the VM.
        market: the market it holds for.
        now: the time at which it is judged, with its zone.
        date: when the price was true: ISO date or time, or a part of a date; None where unknown.
        on_demand_usd_per_hour: what the same VM costs on demand in the same place, where known.
        free: zero is a price, not a gap.
    """
    judged = judge_price(price, gpus, free=free)
    if isinstance(judged, PriceReason):
        return PriceCheck(None, judged)
    flags: list[PriceFlag] = []
    if (
        market is Market.SPOT
        and on_demand_usd_per_hour is not None
        and judged >= on_demand_usd_per_hour
    ):
        flags.append(PriceFlag.SPOT_NOT_CHEAPER)
    least_age = _least_age(date, now)
    if least_age is None or least_age < -_CLOCK_SKEW:  # of the future: not to be believed
        flags.append(PriceFlag.UNDATED)
    elif least_age > FRESH_FOR.get(market, FRESH_FOR[Market.ON_DEMAND]):
        flags.append(PriceFlag.STALE)
    elif _PARTIAL_DATE.fullmatch(date or ""):
        flags.append(PriceFlag.UNDATED)
    return PriceCheck(judged, None, tuple(flags), age_in_words(date, now))


def age_in_words(date: str | None, now: datetime) -> str:
    """Returns a price's age for people: `9 hours`, `12 days`, `of 2026`, `undated`."""
    if date is None or (moment := parse_moment(date)) is None:
        if date and _PARTIAL_DATE.fullmatch(date):
            return f"of {date}"
        return "undated"
    minutes = (now - moment).total_seconds() / 60
    if minutes < -5:
        return "of the future"
    if minutes < 1:
        return "just now"
    for unit, length, until in (("minute", 1, 90), ("hour", 60, 48 * 60), ("day", 24 * 60, 90_000)):
        if minutes < until:
            return _counted(round(minutes / length), unit)
    return _counted(round(minutes / (30.44 * 24 * 60)), "month")


def parse_moment(text: str) -> datetime | None:
    """Returns the moment that an ISO date or time stands for; UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    try:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _least_age(date: str | None, now: datetime) -> timedelta | None:
    """Returns the age, for a part of a date its least possible one; None where it says nothing."""
    if not date:
        return None
    moment = parse_moment(date)
    if moment is not None:
        return now - moment
    part = _PARTIAL_DATE.fullmatch(date)
    if part is None:
        return None
    year, month = int(part[1]), int(part[2] or 12)
    if not (1 <= month <= 12 and 1 <= year < 9999):
        return None
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return max(now - end, timedelta(0))


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
