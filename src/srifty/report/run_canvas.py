"""What all drawings along a run's time share: the time, the limits, the losses, the forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srifty.report.axis import Axis, time_axis
from srifty.report.drawing import Drawing, Point
from srifty.report.layout import NARROW
from srifty.report.quantities import duration
from srifty.report.table import Key

Story = Mapping[str, Any]
_FAR = 1.6
_LEFT = 68.0
# Pixels between two marks that can be told apart.
_APART = 12.0
_LOSSES = ("preempted", "lost", "failed")


def canvas(
    story: Story, width: float, label: str, height: float | None = None
) -> tuple[Drawing, Axis]:
    """Returns an empty drawing, and the time along it: the same for all drawings of a run."""
    is_wide = width > NARROW
    drawing = Drawing(width, height or (300.0 if is_wide else 250.0), label)
    forecast, deadline_s = forecast_of(story), story["deadline_s"]
    end_s = max(story["at_s"], 1.0)
    late_s = forecast["time_s"]["p90"] if forecast else None
    for further_s in (late_s, deadline_s):
        if further_s is not None and further_s <= _FAR * max(end_s, late_s or 0.0):
            end_s = max(end_s, further_s)
    return drawing, time_axis(end_s, _LEFT, width - 12, most=9 if is_wide else 4)


def frame(drawing: Drawing, story: Story, x: Axis, y: Axis, name: str) -> None:
    """Draws axes, the deadline, and when VMs were lost."""
    drawing.frame(x, y, x_name="time since the command", y_name=name)
    deadline_s = story["deadline_s"]
    if deadline_s is not None and deadline_s <= x.high:
        drawing.line((x.at(deadline_s), y.start), (x.at(deadline_s), y.end), "dash-bad")
    losses = [event for event in story["events"] if event["kind"] in _LOSSES]
    apart = {round(x.at(event["at_s"]) / _APART): event for event in losses}
    for event in apart.values():
        at = x.at(event["at_s"])
        drawing.line((at, y.start), (at, y.end), "loss")
        drawing.dot((at, y.end), 3.5, "fill-bad", f"{event['vm']} {event['kind']}")


def forecast_lines(
    drawing: Drawing, story: Story, x: Axis, y: Axis, begin: float, end: float
) -> None:
    """Draws what was forecast: straight from the first iteration to the last, and how surely."""
    forecast, total = forecast_of(story), story["iterations"]
    if forecast is None or not total or forecast["iteration_s"]["mean"] is None:
        return
    mean_s, late_s = forecast["time_s"]["mean"], forecast["time_s"]["p90"]
    if mean_s is None or late_s is None:
        return
    start_s = max(mean_s - total * forecast["iteration_s"]["mean"], 0.0)
    early_s = max(2 * forecast["time_s"]["p50"] - late_s, start_s)
    first = place(x, y, start_s, begin)
    drawing.area([first, place(x, y, early_s, end), place(x, y, late_s, end)], "band-soft")
    drawing.line(first, place(x, y, mean_s, end), "forecast")


def forecast_keys(story: Story) -> list[Key]:
    """Returns what forecast and deadline look like."""
    keys: list[Key] = []
    if forecast_of(story) is not None:
        keys.append(Key("forecast", "soft", "forecast at the start, 10 to 90 %"))
    if story["deadline_s"] is not None:
        keys.append(Key("dash", "bad", f"deadline {duration(story['deadline_s']).text}"))
    return keys


def event_keys(story: Story) -> list[Key]:
    """Returns what a loss looks like, where there was one."""
    if any(event["kind"] in _LOSSES for event in story["events"]):
        return [Key("dot", "bad", "a VM was lost, or could not be had")]
    return []


def forecast_of(story: Story) -> Mapping[str, Any] | None:
    """Returns the forecast made at the start; None where there was none."""
    return story["forecasts"][0] if story["forecasts"] else None


def place(x: Axis, y: Axis, at_s: float, value: float) -> Point:
    """Returns where a value at a time is drawn."""
    return x.at(at_s), y.at(value)


def last_dot(
    drawing: Drawing, x: Axis, y: Axis, points: Sequence[Point], style: str = "fill-first"
) -> None:
    """Marks how it stands now."""
    drawing.dot(place(x, y, *points[-1]), 4, style)
