"""Axes: where ticks stand, and what is written at them."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SECONDS = (
    *(1e-3 * step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
)
_DAY_S = 86400.0
# Axes that show less than this have nothing to show.
_LEAST_S = 1e-3
_LEAST_USD = 5e-4
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis.

    Attributes:
        value: where.
        label: what is written there.
    """

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """From values to places on a drawing.

    Attributes:
        low: the value at `start`.
        high: the value at `end`.
        start: pixels.
        end: pixels; may lie before `start`, as upwards.
        ticks: in order.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[Tick, ...]

    def at(self, value: float) -> float:
        """Returns the place of a value; one beyond the axis is put at its end."""
        inside = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * (inside - self.low) / (self.high - self.low)


def number_axis(
    low: float, high: float, start: float, end: float, *, most: int = 6, whole: bool = False
) -> Axis:
    """Returns an axis with round numbers.

    Args:
        low: the least value to be shown.
        high: the greatest.
        start: pixels of the least.
        end: pixels of the greatest.
        most: ticks that have room.
        whole: whether only whole numbers make sense.
    """
    return _axis(low, high, start, end, _round_step(low, high, most, whole=whole), f"{{:,.{9}g}}")


def dollar_axis(high: float, start: float, end: float, *, most: int = 6) -> Axis:
    """Returns an axis of dollars, from nothing up."""
    axis = number_axis(0.0, max(high, _LEAST_USD), start, end, most=most)
    step = axis.ticks[1].value
    digits = 0 if step >= 1 else 2 if step >= 0.01 else 4
    ticks = tuple(Tick(tick.value, f"${tick.value:,.{digits}f}") for tick in axis.ticks)
    return Axis(axis.low, axis.high, start, end, ticks)


def time_axis(high: float, start: float, end: float, *, most: int = 6) -> Axis:
    """Returns an axis of seconds from 0 with round minutes, hours, or days."""
    span = max(high, _LEAST_S)
    step = next((each for each in _SECONDS if span / each <= most), None)
    if step is None:
        step = _DAY_S * _round_step(0.0, span / _DAY_S, most, whole=True)
    steps = max(math.ceil(span / step - 1e-9), 1)
    ticks = tuple(Tick(k * step, _short(k * step, step)) for k in range(steps + 1))
    return Axis(0.0, steps * step, start, end, ticks)


def _axis(low: float, high: float, start: float, end: float, step: float, form: str) -> Axis:
    low = step * math.floor(low / step + 1e-9)
    steps = max(math.ceil((high - low) / step - 1e-9), 1)
    values = [low + k * step for k in range(steps + 1)]
    ticks = tuple(Tick(value, form.format(round(value, 12))) for value in values)
    return Axis(low, values[-1], start, end, ticks)


def _round_step(low: float, high: float, most: int, *, whole: bool) -> float:
    """Returns the smallest of 1, 2, 5, 10, ... that needs no more steps than there is room for."""
    least = max(high - low, _LEAST) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least * 0.999)
    return max(step, 1.0) if whole else step


def _short(seconds: float, step: float) -> str:
    """Returns a time as short as the step allows."""
    if not seconds:
        return "0"
    if step < 1:
        return f"{seconds * 1e3:,.6g} ms"
    if step < 60:
        return f"{seconds:,.6g} s"
    if step < 3600:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes:02d}" if hours else f"{minutes} min"
    if step < _DAY_S:
        return f"{seconds / 3600:,.6g} h"
    return f"{seconds / _DAY_S:,.6g} d"
