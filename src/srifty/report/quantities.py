"""Numbers as they stand on a page: for people, with the exact value and its place in the JSON."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.units import format_bytes, format_duration, format_odds, format_usd

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number on a page.

    Attributes:
        value: the number; None where it is not known, or infinite.
        text: for people, with its unit.
        source: its place in the JSON document, `plan.time_s.mean`; empty where it is derived.
    """

    value: float | None
    text: str
    source: str = ""


def duration(seconds: float | None, source: str = "") -> Quantity:
    """Returns a time."""
    if seconds is None:
        return Quantity(seconds, UNKNOWN, source)
    return Quantity(seconds, format_duration(seconds) if seconds else "0 s", source)


def dollars(usd: float | None, source: str = "") -> Quantity:
    """Returns an amount of money."""
    if usd is None:
        return Quantity(usd, UNKNOWN, source)
    # Below a hundredth of a cent, money is a trace of rounding.
    text = "$0.00" if abs(usd) < 5e-5 else format_usd(usd)
    return Quantity(usd, text.replace("$-", "−$"), source)


def hourly(usd: float | None, source: str = "") -> Quantity:
    """Returns a price per hour."""
    text = UNKNOWN if usd is None else f"{dollars(usd).text}/h"
    return Quantity(usd, text, source)


def odds(probability: float | None, source: str = "") -> Quantity:
    """Returns a probability."""
    text = UNKNOWN if probability is None else format_odds(probability)
    return Quantity(probability, text.replace("%", " %"), source)


def share(fraction: float | None, source: str = "") -> Quantity:
    """Returns a part of a whole, in percent."""
    return Quantity(
        fraction, UNKNOWN if fraction is None else f"{fraction:.0%}".replace("%", " %"), source
    )


def difference(fraction: float | None, source: str = "") -> Quantity:
    """Returns by how much something is more than something else, in percent with a sign."""
    if fraction is None:
        return Quantity(fraction, UNKNOWN, source)
    if abs(fraction) < 5e-4:
        return Quantity(fraction, "0 %", source)
    return Quantity(fraction, f"{fraction:+.1%}".replace("-", "−").replace("%", " %"), source)


def count(number: float | None, source: str = "", unit: str = "") -> Quantity:
    """Returns a whole number."""
    text = UNKNOWN if number is None else f"{number:,.0f}"
    return Quantity(number, f"{text} {unit}".rstrip(), source)


def rate(per_s: float | None, source: str = "", unit: str = "samples/s") -> Quantity:
    """Returns how many come each second."""
    if per_s is None:
        return Quantity(per_s, UNKNOWN, source)
    digits = 0 if per_s >= 100 else 1 if per_s >= 10 else 3
    return Quantity(per_s, f"{per_s:,.{digits}f} {unit}".rstrip(), source)


def plural(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 VM`, `4 VMs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int, source: str = "") -> Quantity:
    """Returns a number of bytes."""
    return Quantity(number, format_bytes(number), source)


def moment(at_s: float | None, source: str = "") -> Quantity:
    """Returns a time of a run, `0:04:25`: hours, minutes, seconds since the command."""
    if at_s is None:
        return Quantity(at_s, UNKNOWN, source)
    minutes, seconds = divmod(int(at_s), 60)
    return Quantity(at_s, f"{minutes // 60:,}:{minutes % 60:02d}:{seconds:02d}", source)
