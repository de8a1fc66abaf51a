"""The checks that the values of `core` share; each names the field, the value and the remedy."""

from __future__ import annotations

from srifty.errors import InputError

# Beyond these no figure of ours makes sense, and within them no sum or product overflows.
MOST_ITEMS = 10**9
MOST_BYTES = 10**15
_LEAST = 1e-18
_MOST = 1e18


def require(condition: bool, message: str) -> None:
    """Raises `InputError(message)` unless the condition holds."""
    if not condition:
        raise InputError(message)


def require_positive(name: str, value: float) -> None:
    """Raises `InputError` unless `value` is above zero, and neither minute nor enormous."""
    # Not by `require`, which has its message built every time: samples come by the ten thousand.
    if not value > 0:
        raise InputError(f"{name} must be above 0, not {value!r}")
    if not _LEAST <= value <= _MOST:
        raise InputError(f"{name} must lie between {_LEAST} and {_MOST}, not {value!r}")


def require_not_negative(name: str, value: float) -> None:
    """Raises `InputError` unless `value` is at least zero, and not enormous."""
    require(value >= 0, f"{name} must be 0 or more, not {value!r}")
    require(value <= _MOST, f"{name} must be at most {_MOST}, not {value!r}")


def require_count(name: str, value: int, *, least: int = 1, most: int = MOST_ITEMS) -> None:
    """Raises `InputError` unless `value` is an integer from `least` to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not (whole and value >= least):
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value > most:
        raise InputError(f"{name} must be at most {most:,}, not {value!r}")


def require_fraction(name: str, value: float) -> None:
    """Raises `InputError` unless `value` lies in [0, 1]."""
    require(0.0 <= value <= 1.0, f"{name} must lie between 0 and 1, not {value!r}")
