"""Forecast against outcome: what was said at the start, and what came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srifty.report.axis import Axis, dollar_axis, time_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import NARROW, both
from srifty.report.quantities import UNKNOWN, Quantity, difference, dollars, duration
from srifty.report.run_canvas import Story
from srifty.report.table import Figure, Key, Row, Table, columns


def outcome_figure(story: Story, *, has_ended: bool) -> Figure | None:
    """Returns the drawing of a run's first forecast and its outcome; None without a forecast."""
    if not story["forecasts"]:
        return None
    forecast = story["forecasts"][0]
    if forecast["time_s"]["mean"] is None or forecast["cost_usd"]["mean"] is None:
        return None
    wide, narrow = both(lambda width: _draw(story, forecast, width))
    came = "what came" if has_ended else "so far"
    keys = (
        Key("band", "first", "10 to 90 % of the time, as forecast"),
        Key("tick", "first", "forecast"),
        Key("diamond", "ink", came),
        Key("dash", "bad", "limit"),
    )
    caption = f"Forecast at the start for {forecast['config']}, beside {came}."
    return Figure("outcome", caption, wide, narrow, keys, _table(story, forecast, came))


def _draw(story: Story, forecast: Mapping[str, Any], width: float) -> Drawing:
    drawing = Drawing(width, 190, "Forecast against outcome")
    most = 8 if width > NARROW else 4
    lines = (
        ("time from command to end", forecast["time_s"], story["at_s"], story["deadline_s"]),
        ("cost in total", forecast["cost_usd"], story["spent_usd_total"], story["cap_usd"]),
    )
    for index, (name, told, came, limit) in enumerate(lines):
        top = index * 95.0
        late = told["p90"] if told["p90"] is not None else told["mean"]
        high = max(late, came, 1e-9)
        near = limit if limit is not None and limit <= 2 * high else None
        if near is not None:
            high = max(high, near)
        make = time_axis if index == 0 else dollar_axis
        x = make(high * 1.04, 2.0, width - 16, most=most)
        words = name
        if limit is not None and near is None:
            words += f" (limit {_text(index, limit)}, beyond)"
        _line(drawing, x, top, words, told, late, came)
        if near is not None:
            drawing.line((x.at(near), top + 22), (x.at(near), top + 58), "dash-bad")
    return drawing


def _text(index: int, limit: float) -> str:
    return duration(limit).text if index == 0 else dollars(limit).text


def _line(
    drawing: Drawing,
    x: Axis,
    top: float,
    name: str,
    told: Mapping[str, float],
    late: float,
    came: float,
) -> None:
    drawing.text(0, top + 13, name, style="label")
    early = max(2 * told["mean"] - late, 0.0)
    drawing.box(x.at(early), top + 30, max(x.at(late) - x.at(early), 2), 20, "band-first")
    drawing.line((x.at(told["mean"]), top + 26), (x.at(told["mean"]), top + 54), "line-first")
    drawing.line((x.start, top + 58), (x.end, top + 58), "rim")
    drawing.diamond((x.at(came), top + 40), 8, "fill-ink")
    for index, tick in enumerate(x.ticks):
        anchor = "start" if index == 0 else "end" if index == len(x.ticks) - 1 else "middle"
        drawing.line((x.at(tick.value), top + 58), (x.at(tick.value), top + 62), "rim")
        drawing.text(x.at(tick.value), top + 76, tick.label, anchor=anchor, style="tick")


def _table(story: Story, forecast: Mapping[str, Any], came: str) -> Table:
    def row(name: str, key: str, make: Any, real: Quantity, limit: Quantity | str) -> Row:
        told = forecast[key]
        error = real.value / told["mean"] - 1 if real.value is not None and told["mean"] else None
        return Row(
            (
                name,
                *(
                    make(told[each], f"forecasts.0.{key}.{each}")
                    for each in ("mean", "p50", "p90", "p95")
                ),
                limit,
                real,
                difference(error),
            )
        )

    deadline_s, cap_usd = story["deadline_s"], story["cap_usd"]
    rows = (
        row(
            "time",
            "time_s",
            duration,
            duration(story["at_s"], "at_s"),
            UNKNOWN if deadline_s is None else duration(deadline_s, "deadline_s"),
        ),
        row(
            "cost in total",
            "cost_usd",
            dollars,
            dollars(story["spent_usd_total"], "spent_usd_total"),
            UNKNOWN if cap_usd is None else dollars(cap_usd, "cap_usd"),
        ),
    )
    head = columns(
        "",
        "#forecast",
        "#half within",
        "#90 % within",
        "#95 % within",
        "#limit",
        f"#{came}",
        "#off by",
    )
    return Table("Forecast against outcome", head, rows)
