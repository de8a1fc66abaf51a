"""The money that is left of a run."""

from __future__ import annotations

from srifty.report.axis import dollar_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import both
from srifty.report.quantities import UNKNOWN, dollars, moment
from srifty.report.run_canvas import (
    Story,
    canvas,
    event_keys,
    forecast_keys,
    forecast_lines,
    forecast_of,
    frame,
    last_dot,
    place,
)
from srifty.report.table import Figure, Key, Row, Table, columns


def money_left_figure(story: Story) -> Figure | None:
    """Returns the money that is left (or was spent, without a limit) over time."""
    progress = story["history"]["progress"]
    if not progress:
        return None
    cap_usd = story["cap_usd"]
    spent = [
        (0.0, 0.0),
        *((p["at_s"], p["spent_usd"]) for p in progress),
        (story["at_s"], story["spent_usd_total"]),
    ]
    most_usd = max(usd for _, usd in spent)
    is_left = cap_usd is not None
    points = [(at_s, cap_usd - usd if is_left else usd) for at_s, usd in spent]

    def draw(width: float) -> Drawing:
        name = "money left" if is_left else "money spent"
        drawing, x = canvas(story, width, f"{name.capitalize()} over time")
        forecast = forecast_of(story)
        mean_usd = forecast["cost_usd"]["mean"] if forecast else None
        top = cap_usd if is_left else max(most_usd, mean_usd or 0.0)
        y = dollar_axis(top or 1.0, drawing.height - 46, 30.0, most=5)
        frame(drawing, story, x, y, f"{name}, US dollars")
        if mean_usd is not None:
            begin = cap_usd if is_left else 0.0
            forecast_lines(drawing, story, x, y, begin, begin - mean_usd if is_left else mean_usd)
        if is_left:
            drawing.line(place(x, y, x.low, 0.0), place(x, y, x.high, 0.0), "dash-bad")
        drawing.path([place(x, y, *point) for point in points], "line-second")
        last_dot(drawing, x, y, points, "fill-second")
        return drawing

    wide, narrow = both(draw)
    keys = [Key("plain", "second", "left" if is_left else "spent")]
    if is_left:
        keys.append(Key("dash", "bad", f"nothing left of {dollars(cap_usd).text}, or the deadline"))
    keys += [key for key in forecast_keys(story) if key.tone != "bad"] + event_keys(story)
    rows = tuple(
        Row(
            (
                moment(p["at_s"], f"history.progress.{index}.at_s"),
                dollars(p["spent_usd"], f"history.progress.{index}.spent_usd"),
                dollars(cap_usd - p["spent_usd"]) if is_left else UNKNOWN,
            )
        )
        for index, p in enumerate(progress)
    )
    now = (
        moment(story["at_s"], "at_s"),
        dollars(story["spent_usd_total"], "spent_usd_total"),
        dollars(cap_usd - story["spent_usd_total"]) if is_left else UNKNOWN,
    )
    head = columns("#at, h:mm:ss", "#spent in total", "#left")
    table = Table("Money over time", head, (*rows, Row(now, is_marked=True)))
    caption = (
        "Money as it was really billed; a spot VM that is taken back in its first hour may be free."
    )
    return Figure("money", caption, wide, narrow, tuple(keys), table)
