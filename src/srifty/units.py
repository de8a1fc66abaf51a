"""Seconds, bytes, dollars: parsing what people write and printing what people read."""

from __future__ import annotations

import math
import re

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_SECONDS_PER = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES_PER = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_BYTES = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|min|s|m|h|d)\s*")


def parse_duration_s(text: str) -> float:
    """Returns the seconds that a duration such as `500s`, `6h`, `1h30m` or `250ms` stands for.

    Args:
        text: one or more numbers, each with its unit: ms, s, m (or min), h, d.

    Raises:
        ValueError: the text is empty, has a number without a unit, or an unknown unit.
    """
    total_s = 0.0
    position = 0
    stripped = text.strip()
    while position < len(stripped):
        match = _DURATION_PART.match(stripped, position)
        if match is None:
            break
        total_s += float(match[1]) * _SECONDS_PER[match[2]]
        position = match.end()
    if not stripped or position < len(stripped):
        raise ValueError(f"{text!r} is not a duration; write a number and a unit: 500s, 90m, 6h")
    return total_s


def parse_bytes(text: str) -> int:
    """Returns the bytes that a size such as `4B`, `64KiB` or `512MiB` stands for.

    Args:
        text: a whole number and its unit: B, KiB, MiB, GiB (powers of 1024).

    Raises:
        ValueError: no whole number, no unit, or an unknown one.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text.strip()!r} is no size; write a whole number and a unit: 4B, 64KiB, 512MiB, 1GiB"
        )
    return int(match[1]) * _BYTES_PER[match[2]]


def format_duration(seconds: float) -> str:
    """Returns a duration for people: `84 ms`, `12.3 s`, `1 h 07 min 10 s`, `9 h 06 min`."""
    if not math.isfinite(seconds):
        return "for ever"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if 0 < seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if 0 < seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 3 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24:02d} h"


def format_usd(usd: float) -> str:
    """Returns an amount for people, with cents: `$0.0042`, `$2.45`, `$12,345`."""
    if 0 < abs(usd) < 0.1:
        return f"${usd:.4f}"
    if abs(usd) < 1000:
        return f"${usd:.2f}"
    return f"${usd:,.0f}"


def format_odds(probability: float) -> str:
    """Returns a probability in whole percent; a forecast is never quite certain."""
    if probability > 0.995:
        return ">99%"
    return "<1%" if probability < 0.005 else f"{probability:.0%}"


def format_bytes(count: float) -> str:
    """Returns a number of bytes for people, in powers of 1024: `512 B`, `25 MiB`."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def format_bandwidth(bytes_per_s: float) -> str:
    """Returns a bandwidth as nccl-tests prints it: gigabytes (1e9 B) per second."""
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def gbit_to_bytes_per_s(gbit_per_s: float) -> float:
    """Returns bytes per second for a rated network speed in Gbit/s (1e9 bit)."""
    return gbit_per_s * 1e9 / 8
