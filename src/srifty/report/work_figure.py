"""The iterations that are left of a run."""

from __future__ import annotations

from srifty.report.axis import number_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import both
from srifty.report.quantities import count, moment
from srifty.report.run_canvas import (
    Story,
    canvas,
    event_keys,
    forecast_keys,
    forecast_lines,
    frame,
    last_dot,
    place,
)
from srifty.report.table import Figure, Key, Row, Table, columns


def iterations_figure(story: Story) -> Figure | None:
    """Returns the iterations that are left over time; None before there is any progress."""
    total = story["iterations"]
    progress = story["history"]["progress"]
    if not total or not progress:
        return None
    left = [(0.0, float(total)), *((p["at_s"], total - p["iteration"]) for p in progress)]
    saved = [(0.0, float(total)), *((p["at_s"], total - p["durable_iteration"]) for p in progress)]

    def draw(width: float) -> Drawing:
        drawing, x = canvas(story, width, "Iterations left over time")
        y = number_axis(0.0, total, drawing.height - 46, 30.0, most=5, whole=True)
        frame(drawing, story, x, y, "iterations left")
        forecast_lines(drawing, story, x, y, total, 0.0)
        drawing.path([place(x, y, *point) for point in saved], "dash-soft", stepped=True)
        drawing.path([place(x, y, *point) for point in left], "line-first")
        last_dot(drawing, x, y, left)
        return drawing

    wide, narrow = both(draw)
    keys = [
        Key("plain", "first", "left"),
        Key("dash", "soft", "left if all that is not saved were lost"),
    ]
    keys += forecast_keys(story) + event_keys(story)
    rows = tuple(
        Row(
            (
                moment(p["at_s"], f"history.progress.{index}.at_s"),
                count(p["iteration"], f"history.progress.{index}.iteration"),
                count(p["durable_iteration"], f"history.progress.{index}.durable_iteration"),
                count(total - p["iteration"]),
            )
        )
        for index, p in enumerate(progress)
    )
    head = columns("#at, h:mm:ss", "#iterations done", "#saved", "#left")
    caption = "Work that is left, against the forecast made at the start."
    table = Table("Iterations over time", head, rows)
    return Figure("work", caption, wide, narrow, tuple(keys), table)
