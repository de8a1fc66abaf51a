"""One iteration: who computes when, when gradients are ready, when they move, what is exposed."""

from __future__ import annotations

from srifty.files.plan_document import PlanDocument, PlanPart, TimelinePart
from srifty.report.axis import time_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import NARROW, both
from srifty.report.quantities import UNKNOWN, duration, size
from srifty.report.table import Figure, Key, Row, Table, columns

_TONES = {"forward": "first", "backward": "third", "optimizer": "fourth"}
# Transfers that a person can still tell apart in a table; a model by layers has hundreds.
_MOST_ROWS = 200


def timeline_figure(document: PlanDocument) -> Figure | None:
    """Returns the drawing of a plan's iteration; None where its file knows no timeline."""
    timeline = document.timeline
    plan = document.plan or document.nearest
    if timeline is None or plan is None or not timeline.compute:
        return None
    wide, narrow = both(lambda width: _draw(timeline, plan, width))
    names = dict.fromkeys(span.name for span in timeline.compute)
    keys = [Key("box", _TONES.get(name, "soft"), name) for name in names]
    if timeline.transfers:
        keys += [
            Key("tick", "ink", "gradients of a transfer are ready"),
            Key("box", "second", "transfer"),
        ]
    exposed_s = plan.parts.exposed_exchange_s
    if exposed_s > 0:
        keys.append(Key("band", "bad", f"exposed: {duration(exposed_s).text} that nothing hides"))
    caption = (
        f"A mean iteration of {duration(timeline.iteration_s).text}. Passes are those of a typical "
        "worker; everybody waits for the slowest one, whose gradients the transfers wait for too."
    )
    return Figure("timeline", caption, wide, narrow, tuple(keys), _table(timeline))


def _draw(timeline: TimelinePart, plan: PlanPart, width: float) -> Drawing:
    is_wide = width > NARROW
    tracks = list(dict.fromkeys(span.track for span in timeline.compute))
    slots = list(dict.fromkeys(span.track for span in timeline.transfers))
    shown_slots = slots[:8]
    row = 46.0
    rows = len(tracks) + (1 + len(shown_slots) if timeline.transfers else 0)
    height = rows * row + 50
    drawing = Drawing(width, height, "One iteration")
    parts = plan.parts
    ends = [span.start_s + span.duration_s for span in (*timeline.compute, *timeline.transfers)]
    computed_s = parts.forward_s + parts.backward_s
    last_s = max(*ends, timeline.iteration_s, computed_s + parts.exposed_exchange_s)
    x = time_axis(last_s, 2.0, width - 16, most=10 if is_wide else 4)
    bottom = rows * row + 4
    if parts.exposed_exchange_s > 0:
        left, right = x.at(computed_s), x.at(computed_s + parts.exposed_exchange_s)
        drawing.box(left, 0, max(right - left, 1.5), bottom, "band-bad")
    for tick in x.ticks:
        drawing.line((x.at(tick.value), 0), (x.at(tick.value), bottom), "grid")
    for index, track in enumerate(tracks):
        top = index * row
        drawing.text(2, top + 13, track.partition(": ")[2] or track, style="label")
        for span in timeline.compute:
            if span.track != track:
                continue
            left, right = x.at(span.start_s), x.at(span.start_s + span.duration_s)
            title = f"{span.name}: {duration(span.duration_s).text}"
            tone = _TONES.get(span.name, "soft")
            drawing.box(left, top + 20, max(right - left - 1, 1), 18, f"fill-{tone}", title)
    if timeline.transfers:
        top = len(tracks) * row
        drawing.text(2, top + 13, "gradients ready", style="label")
        for one in timeline.transfers:
            at = x.at(one.ready_s)
            drawing.line((at, top + 20), (at, top + 38), "line-ink")
    for index, slot in enumerate(shown_slots):
        top = (len(tracks) + 1 + index) * row
        words = "transfers" if len(slots) == 1 else f"transfers, {slot}"
        if index == len(shown_slots) - 1 and len(slots) > len(shown_slots):
            words += f" (and {len(slots) - len(shown_slots)} more at a time)"
        drawing.text(2, top + 13, words, style="label")
        for one in timeline.transfers:
            if one.track != slot:
                continue
            left, right = x.at(one.start_s), x.at(one.start_s + one.duration_s)
            title = f"{one.name}, {size(one.bytes).text}: {duration(one.duration_s).text}"
            drawing.box(left, top + 20, max(right - left - 1, 1), 18, "fill-second", title)
    drawing.line((x.start, bottom), (x.end, bottom), "rim")
    for index, tick in enumerate(x.ticks):
        anchor = "start" if index == 0 else "end" if index == len(x.ticks) - 1 else "middle"
        drawing.line((x.at(tick.value), bottom), (x.at(tick.value), bottom + 5), "rim")
        drawing.text(x.at(tick.value), bottom + 20, tick.label, anchor=anchor, style="tick")
    drawing.text(x.end, bottom + 38, "from the start of the iteration", anchor="end", style="name")
    return drawing


def _table(timeline: TimelinePart) -> Table:
    rows = [
        Row(
            (
                span.track,
                span.name,
                UNKNOWN,
                UNKNOWN,
                duration(span.start_s, f"timeline.compute.{index}.start_s"),
                duration(span.duration_s, f"timeline.compute.{index}.duration_s"),
            )
        )
        for index, span in enumerate(timeline.compute[:_MOST_ROWS])
    ]
    rows += [
        Row(
            (
                one.track,
                one.name,
                size(one.bytes, f"timeline.transfers.{index}.bytes"),
                duration(one.ready_s, f"timeline.transfers.{index}.ready_s"),
                duration(one.start_s, f"timeline.transfers.{index}.start_s"),
                duration(one.duration_s, f"timeline.transfers.{index}.duration_s"),
            )
        )
        for index, one in enumerate(timeline.transfers[:_MOST_ROWS])
    ]
    left_out = max(len(timeline.compute) - _MOST_ROWS, 0)
    left_out += max(len(timeline.transfers) - _MOST_ROWS, 0)
    caption = "One iteration, pass by pass and transfer by transfer"
    if left_out:
        caption += f" ({left_out:,} more are in PLAN.json)"
    head = columns("where", "what", "#bytes", "#ready at", "#begins at", "#takes")
    return Table(caption, head, tuple(rows))
