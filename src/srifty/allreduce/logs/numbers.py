"""Printed numbers: what a rounded figure says, and what it leaves open."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?\Z")
# Half a unit of the last digit, and a little for the binary fractions that computed it.
_HALF = 0.5 + 1e-6
# No figure of a log has more, and with them no sum or product overflows.
_MOST_DIGITS = 60


class Printed(NamedTuple):
    """A number as it was printed.

    Attributes:
        value: the number.
        low: the least number that prints so.
        high: the largest.
    """

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Printed:
        """Returns the number in another unit."""
        return Printed(self.value * factor, self.low * factor, self.high * factor)


@lru_cache(maxsize=8192)
def parse_number(text: str) -> Printed | None:
    """Returns a printed number with its rounding interval, or None where `text` is no number.

    Digits may be grouped by commas; an exponent moves the last digit.
    """
    if _NUMBER.match(text) is None:
        return None
    mantissa, _, exponent = text.replace(",", "").lower().partition("e")
    if len(exponent) > 4:
        return None
    power = int(exponent or 0)
    if len(mantissa) + abs(power) > _MOST_DIGITS:
        return None
    value = float(f"{mantissa}e{power}")
    half = _HALF * 10.0 ** (power - len(mantissa.partition(".")[2]))
    return Printed(value, value - half, value + half)


def parse_whole(text: str) -> int | None:
    """Returns a printed whole number, `1,048,576` and `1e9` included, or None."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 18 else None
    number = parse_number(text)
    if number is None or number.value < 0 or not number.value.is_integer():
        return None
    return int(number.value) if number.value < 1e18 else None
