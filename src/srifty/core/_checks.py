"""The checks that the values of `core` share; each names the field, the value and the remedy."""

from __future__ import annotations

import math

from srifty.errors import InputError


def require(condition: bool, message: str) -> None:
    """Raises `InputError(message)` unless the condition holds."""
    if not condition:
        raise InputError(message)


def require_positive(name: str, value: float) -> None:
    """Raises `InputError` unless `value` is finite and above zero."""
    require(math.isfinite(value) and value > 0, f"{name} must be above 0, not {value!r}")


def require_not_negative(name: str, value: float) -> None:
    """Raises `InputError` unless `value` is finite and at least zero."""
    require(math.isfinite(value) and value >= 0, f"{name} must be 0 or more, not {value!r}")


def require_count(name: str, value: int, *, least: int = 1) -> None:
    """Raises `InputError` unless `value` is an integer of at least `least`."""
    whole = isinstance(value, int) and not isinstance(value, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    require(
        whole and value >= least,
        f"{name} must be a whole number of at least {least}, not {value!r}",
    )


def require_fraction(name: str, value: float) -> None:
    """Raises `InputError` unless `value` lies in [0, 1]."""
    require(0.0 <= value <= 1.0, f"{name} must lie between 0 and 1, not {value!r}")
