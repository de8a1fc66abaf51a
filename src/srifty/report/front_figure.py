"""Time against cost: the front, the choice, the runners-up, the limits."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.files.plan_document import PlanDocument, PlanPart
from srifty.report.axis import dollar_axis, time_axis
from srifty.report.drawing import Drawing
from srifty.report.layout import NARROW, both
from srifty.report.quantities import UNKNOWN, dollars, duration, odds
from srifty.report.table import Figure, Key, Row, Table, columns

# A limit that lies further out than so many times the slowest or dearest plan is told, not drawn.
_FAR = 1.35
_MARGIN = 0.06


def front_figure(document: PlanDocument) -> Figure | None:
    """Returns the drawing of a planner's answer; None where it holds no plan that can be drawn."""
    chosen = document.plan or document.nearest
    plans = [plan for plan in _plans(document) if _is_drawable(plan)]
    if chosen is None or not plans:
        return None
    wide, narrow = both(lambda width: _draw(document, chosen, plans, width))
    keys = [Key("diamond", "first", "chosen" if document.plan else "nearest plan")]
    if document.front:
        keys.append(Key("dot", "second", "front: none seen is both faster and cheaper"))
    if len(document.ranking) > 1:
        keys.append(Key("ring", "soft", "runner-up"))
    request = document.request
    if request is not None and request.deadline_s is not None:
        far = _far(request.deadline_s, [_mean(plan)[0] for plan in plans])
        keys.append(Key("dash", "bad", f"deadline {duration(request.deadline_s).text}{far}"))
    if request is not None and request.budget_usd is not None:
        far = _far(request.budget_usd, [_mean(plan)[1] for plan in plans])
        keys.append(Key("dash", "bad", f"budget {dollars(request.budget_usd).text}{far}"))
    caption = "Expected time and total cost of the choice and of the plans that compete with it."
    return Figure("front", caption, wide, narrow, tuple(keys), _table(document, chosen))


def _plans(document: PlanDocument) -> list[PlanPart]:
    chosen = document.plan or document.nearest
    own = () if chosen is None else (chosen,)
    return list(dict.fromkeys((*own, *document.ranking, *document.front)))


def _is_drawable(plan: PlanPart) -> bool:
    return plan.time_s.mean is not None and plan.cost_usd.mean is not None


def _mean(plan: PlanPart) -> tuple[float, float]:
    return plan.time_s.mean or 0.0, plan.cost_usd.mean or 0.0


def _far(limit: float, values: Sequence[float]) -> str:
    """Returns a word where a limit lies too far out to be drawn."""
    return ", beyond the drawing" if limit > _FAR * max(values) else ""


def _draw(
    document: PlanDocument, chosen: PlanPart, plans: Sequence[PlanPart], width: float
) -> Drawing:
    is_wide = width > NARROW
    height = 380.0 if is_wide else 300.0
    drawing = Drawing(width, height, "Time against cost")
    times, costs = zip(*map(_mean, plans), strict=True)
    request = document.request
    deadline_s = request.deadline_s if request else None
    budget_usd = request.budget_usd if request else None
    if deadline_s is not None and _far(deadline_s, times):
        deadline_s = None
    if budget_usd is not None and _far(budget_usd, costs):
        budget_usd = None
    late_s, dear_usd = chosen.time_s.p90 or 0.0, chosen.cost_usd.p90 or 0.0
    right = max(*times, late_s, deadline_s or 0.0) * (1 + _MARGIN)
    top = max(*costs, dear_usd, budget_usd or 0.0) * (1 + _MARGIN)
    x = time_axis(right, 62.0, width - 10, most=8 if is_wide else 4)
    y = dollar_axis(top, height - 46, 30.0, most=5)
    in_time = x.end if deadline_s is None else x.at(deadline_s)
    drawing.box(in_time, y.end, x.end - in_time, y.start - y.end, "beyond")
    if budget_usd is not None:
        drawing.box(x.start, y.end, in_time - x.start, y.at(budget_usd) - y.end, "beyond")
    drawing.frame(x, y, x_name="time from command to end", y_name="cost in total, US dollars")
    if deadline_s is not None:
        drawing.line((x.at(deadline_s), y.start), (x.at(deadline_s), y.end), "dash-bad")
    if budget_usd is not None:
        drawing.line((x.start, y.at(budget_usd)), (x.end, y.at(budget_usd)), "dash-bad")
    front = [(x.at(t), y.at(c)) for t, c in map(_mean, filter(_is_drawable, document.front))]
    drawing.path(front, "line-second thin", stepped=True)
    for plan in plans:
        at = (x.at(_mean(plan)[0]), y.at(_mean(plan)[1]))
        words = (
            f"{plan.config}: {duration(plan.time_s.mean).text}, {dollars(plan.cost_usd.mean).text}"
        )
        if plan == chosen:
            continue
        style = "fill-second" if plan in document.front else "ring-soft"
        drawing.dot(at, 4.5, style, words)
    if _is_drawable(chosen):
        mean = _mean(chosen)
        at = (x.at(mean[0]), y.at(mean[1]))
        if late_s and dear_usd:
            drawing.line(at, (x.at(late_s), y.at(dear_usd)), "line-first")
            drawing.dot((x.at(late_s), y.at(dear_usd)), 2.5, "fill-first", "90 % within")
        drawing.diamond(at, 8, "fill-first", chosen.config)
        word = "chosen" if document.plan else "nearest"
        is_right = at[0] > x.end - 110
        drawing.text(
            at[0] + (-12 if is_right else 12),
            at[1] + 20,
            word,
            anchor="end" if is_right else "start",
            style="strong",
        )
    knee = _knee(document)
    if knee is not None and knee != chosen and _is_drawable(knee):
        at = (x.at(_mean(knee)[0]), y.at(_mean(knee)[1]))
        is_right = at[0] > x.end - 60
        drawing.text(
            at[0] + (-10 if is_right else 10),
            at[1] - 10,
            "knee",
            anchor="end" if is_right else "start",
            style="label",
        )
    return drawing


def _knee(document: PlanDocument) -> PlanPart | None:
    if document.knee is None or not 0 <= document.knee < len(document.front):
        return None
    return document.front[document.knee]


def _table(document: PlanDocument, chosen: PlanPart) -> Table:
    name = "plan" if document.plan else "nearest"
    rows = [_row(chosen, name, "chosen" if document.plan else "nearest", is_marked=True)]
    shown = [chosen]
    knee = _knee(document)
    for kind, plans in (("runner-up", document.ranking), ("front", document.front)):
        place = "ranking" if kind == "runner-up" else "front"
        for index, plan in enumerate(plans):
            if plan in shown:
                continue
            shown.append(plan)
            words = kind
            if plan in document.front and kind == "runner-up":
                words = "runner-up, front"
            if plan == knee:
                words += ", knee"
            rows.append(_row(plan, f"{place}.{index}", words))
    head = columns(
        "", "configuration", "#time", "#90 % within", "#cost in total", "#90 % within", "#odds"
    )
    return Table("The choice, the runners-up and the time-cost front", head, tuple(rows))


def _row(plan: PlanPart, source: str, kind: str, *, is_marked: bool = False) -> Row:
    return Row(
        (
            kind,
            plan.config or UNKNOWN,
            duration(plan.time_s.mean, f"{source}.time_s.mean"),
            duration(plan.time_s.p90, f"{source}.time_s.p90"),
            dollars(plan.cost_usd.mean, f"{source}.cost_usd.mean"),
            dollars(plan.cost_usd.p90, f"{source}.cost_usd.p90"),
            odds(plan.success_probability, f"{source}.success_probability"),
        ),
        is_marked,
    )
