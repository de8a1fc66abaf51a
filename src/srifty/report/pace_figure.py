"""The throughput of a run, with the bound that decisions rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srifty.report.axis import number_axis
from srifty.report.drawing import Drawing, Point
from srifty.report.layout import both
from srifty.report.quantities import moment, rate
from srifty.report.run_canvas import Story, canvas, event_keys, forecast_of, frame, place
from srifty.report.table import Figure, Key, Row, Table, columns


def pace_figure(story: Story) -> Figure | None:
    """Returns the throughput with its optimistic bound; None before enough steps were made."""
    paces = story["history"]["pace"]
    if not paces:
        return None
    forecast = forecast_of(story)
    mean_s = forecast["iteration_s"]["mean"] if forecast else None
    needed = _needed(story)
    most = max([p["bound"] for p in paces] + ([1 / mean_s] if mean_s else []))

    def draw(width: float) -> Drawing:
        drawing, x = canvas(story, width, "Throughput over time")
        y = number_axis(0.0, 1.1 * most, drawing.height - 46, 30.0, most=5)
        frame(drawing, story, x, y, "iterations per second")
        if mean_s:
            drawing.line(
                place(x, y, x.low, 1 / mean_s), place(x, y, x.high, 1 / mean_s), "dash-soft"
            )
        inside = [(at_s, pace) for at_s, pace in needed if pace <= y.high]
        drawing.path([place(x, y, *point) for point in inside], "dash-bad")
        for world in _by_world(story, paces):
            means = [place(x, y, p["at_s"], p["mean"]) for p in world]
            bounds = [place(x, y, p["at_s"], p["bound"]) for p in world]
            drawing.area([*bounds, *reversed(means)], "band-third")
            drawing.path(means, "line-third")
            if len(means) == 1:
                drawing.dot(means[0], 3, "fill-third")
        return drawing

    wide, narrow = both(draw)
    keys = [
        Key("plain", "third", "mean of the last minutes"),
        Key("band", "third", "up to its optimistic bound (95 %, one-sided)"),
    ]
    if mean_s:
        keys.append(
            Key("dash", "soft", f"forecast at the start: {rate(1 / mean_s, unit='/s').text}")
        )
    if needed:
        keys.append(Key("dash", "bad", "needed from then on for the deadline"))
    rows = tuple(
        Row(
            (
                moment(p["at_s"], f"history.pace.{index}.at_s"),
                rate(p["mean"], f"history.pace.{index}.mean", ""),
                rate(p["bound"], f"history.pace.{index}.bound", ""),
            )
        )
        for index, p in enumerate(paces)
    )
    head = columns("#at, h:mm:ss", "#iterations per second", "#optimistic bound")
    table = Table("Throughput over time", head, rows)
    caption = "A plan is given up for its pace only when even the bound would miss a limit, twice."
    return Figure("pace", caption, wide, narrow, tuple(keys + event_keys(story)), table)


def _needed(story: Story) -> list[Point]:
    """Returns (time, iterations per second) that keep the deadline from then on."""
    deadline_s, total = story["deadline_s"], story["iterations"]
    if deadline_s is None or not total:
        return []
    return [
        (p["at_s"], (total - p["iteration"]) / (deadline_s - p["at_s"]))
        for p in story["history"]["progress"]
        if p["at_s"] < deadline_s and p["iteration"] < total
    ]


def _by_world(
    story: Story, paces: Sequence[Mapping[str, float]]
) -> list[list[Mapping[str, float]]]:
    """Returns the paces of each world by themselves: between two, nothing is measured."""
    starts_s = sorted(world["at_s"] for world in story["worlds"])
    worlds: dict[int, list[Mapping[str, float]]] = {}
    for pace in paces:
        worlds.setdefault(sum(at_s <= pace["at_s"] for at_s in starts_s), []).append(pace)
    return list(worlds.values())
