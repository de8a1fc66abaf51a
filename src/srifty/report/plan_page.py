"""The page of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srifty.files.plan_document import PlanDocument, PlanPart, RequestPart
from srifty.report.doubt import doubt_figure
from srifty.report.front_figure import front_figure
from srifty.report.money import group_table, money_figure
from srifty.report.page import Tile, gauge, render
from srifty.report.quantities import UNKNOWN, count, dollars, duration, hourly, odds, plural, rate
from srifty.report.rivals import methods_told, rivals_table
from srifty.report.scaling_figure import scaling_figure
from srifty.report.timeline_figure import timeline_figure
from srifty.units import format_odds

_EXPLAINED = {
    "binding": "What holds it back",
    "worth": "What a little more of it buys",
    "runner-up": "Why the runner-up lost",
    "sensitivity": "What would change the choice",
}


def plan_page(
    document: PlanDocument,
    compared: Mapping[str, Any] | None = None,
    *,
    not_compared: str = "Not computed.",
) -> str:
    """Returns the page of a planner's answer.

    Args:
        document: the answer.
        compared: what `srifty compare --json` says of the same job; None: it was not asked.
        not_compared: why there is no comparison.
    """
    plan = document.plan or document.nearest
    is_feasible = document.plan is not None
    return render(
        "plan.html",
        title=f"Plan for {document.job}",
        job=document.job,
        answer=_answer(document),
        asked=_asked(document.request),
        is_feasible=is_feasible,
        tile_list=() if plan is None else _tiles(document, plan),
        config="" if plan is None else plan.config,
        groups=group_table(document),
        losses=_losses(plan),
        reasons=list(dict.fromkeys(reason.message for reason in document.reasons)),
        warnings=document.warnings,
        front=front_figure(document),
        marginals=[marginal.message for marginal in document.marginals],
        explanations=_explanations(document),
        scaling=scaling_figure(document),
        timeline=timeline_figure(document),
        money=money_figure(document),
        cost_range=_cost_range(document),
        rivals=None if compared is None else rivals_table(compared),
        is_other_plan=_is_other_plan(document, compared),
        methods=[] if compared is None else methods_told(compared),
        no_rivals=not_compared,
        doubt=doubt_figure(document),
        assumptions=document.assumptions,
        search=_search(document),
        version=document.srifty,
    )


def _answer(document: PlanDocument) -> str:
    plan = document.plan
    if plan is None:
        return f"No plan. {document.message}{_nearest(document)}"
    vms = " and ".join(
        f"{group.count} × {group.instance_type} ({group.market})" for group in plan.groups
    )
    words = (
        f"Rent {vms}: the job ends in {duration(plan.time_s.mean).text} for "
        f"{dollars(plan.cost_usd.mean).text} in total"
    )
    limits = _limits(document.request)
    if not limits:
        late, dear = duration(plan.time_s.p90).text, dollars(plan.cost_usd.p90).text
        return f"{words}, nine times of ten within {late} and {dear}."
    return f"{words}, and keeps {limits} with {odds(plan.success_probability).text} confidence."


def _nearest(document: PlanDocument) -> str:
    plan = document.nearest
    if plan is None:
        return ""
    return (
        f" The nearest one ends in {duration(plan.time_s.mean).text} for "
        f"{dollars(plan.cost_usd.mean).text}, with {odds(plan.success_probability).text} odds."
    )


def _limits(request: RequestPart | None) -> str:
    if request is None:
        return ""
    limits: list[str] = []
    if request.deadline_s is not None:
        limits.append(f"the deadline of {duration(request.deadline_s).text}")
    if request.budget_usd is not None:
        limits.append(f"the budget of {dollars(request.budget_usd).text}")
    return " and ".join(limits)


def _asked(request: RequestPart | None) -> str:
    if request is None:
        return ""
    goal = "as soon as possible" if request.minimize == "time" else "as cheap as possible"
    words = f"{request.iterations:,} iterations of {request.global_batch:,} samples, {goal}"
    limits = _limits(request)
    if not limits:
        return f"Asked for: {words}, without a limit."
    sure = format_odds(request.confidence).replace("%", " %")
    return f"Asked for: {words}, within {limits}, with at least {sure} confidence."


def _tiles(document: PlanDocument, plan: PlanPart) -> tuple[Tile, ...]:
    name = "plan" if document.plan else "nearest"
    request = document.request
    deadline_s = request.deadline_s if request else None
    budget_usd = request.budget_usd if request else None
    asked = "" if request is None else f"asked for: {odds(request.confidence).text}"
    mean_s = plan.iteration_s.mean
    limited = deadline_s is not None or budget_usd is not None
    is_enough = request is None or plan.success_probability >= request.confidence
    time_s, cost = plan.time_s, plan.cost_usd
    tiles = [
        Tile(
            "Time to the end",
            duration(time_s.mean, f"{name}.time_s.mean"),
            (
                ("90 % within ", duration(time_s.p90, f"{name}.time_s.p90")),
                *_limit_line("limit ", duration(deadline_s, "request.deadline_s"), deadline_s),
            ),
            gauge(time_s.mean, time_s.p90, deadline_s, "time against the deadline"),
        ),
        Tile(
            "Cost in total",
            dollars(cost.mean, f"{name}.cost_usd.mean"),
            (
                ("90 % within ", dollars(cost.p90, f"{name}.cost_usd.p90")),
                *_limit_line("limit ", dollars(budget_usd, "request.budget_usd"), budget_usd),
            ),
            gauge(cost.mean, cost.p90, budget_usd, "cost against the budget"),
        ),
        Tile(
            "Throughput, samples/s",
            rate(plan.samples / mean_s if mean_s else None, unit=""),
            (
                (f"{plural(plan.world_size, 'GPU')} on {plural(plan.vms, 'VM')}",),
                ("one iteration ", duration(mean_s, f"{name}.iteration_s.mean")),
                (hourly(plan.usd_per_hour, f"{name}.usd_per_hour"), " for all VMs"),
            ),
        ),
    ]
    if limited:
        confidence = Tile(
            "Odds to keep the limits",
            odds(plan.success_probability, f"{name}.success_probability"),
            ((asked,),) if asked else (),
            tone="good" if is_enough and document.plan else "bad",
        )
        tiles.insert(2, confidence)
    return tuple(tiles)


def _limit_line(words: str, limit: Any, value: float | None) -> tuple[tuple[Any, ...], ...]:
    return () if value is None else ((words, limit),)


def _losses(plan: PlanPart | None) -> str:
    told = None if plan is None else plan.interruptions
    if told is None or told.expected is None:
        return ""
    saves = "No checkpoints are planned."
    if told.checkpoint_every is not None:
        saves = (
            f"A checkpoint every {count(told.checkpoint_every).text} iterations "
            f"({duration(told.checkpoint_interval_s).text})."
        )
    return (
        f"Spot VMs may be taken back: {told.expected:.2g} losses are expected "
        f"({odds(told.none_probability).text} that there is none), which cost "
        f"{duration(told.lost_s).text} in the mean. {saves}"
    )


def _explanations(document: PlanDocument) -> list[tuple[str, list[str]]]:
    found = [
        (title, [each.message for each in document.explanations if each.kind == kind])
        for kind, title in _EXPLAINED.items()
    ]
    return [(title, lines) for title, lines in found if lines]


def _is_other_plan(document: PlanDocument, compared: Mapping[str, Any] | None) -> bool:
    """Whether the comparison found another plan of ours: prices or options have changed."""
    if compared is None or not compared["methods"]:
        return False
    told = compared["methods"][0]["simulated"]
    ours = None if document.plan is None else document.plan.cost_usd.mean
    theirs = None if told is None else told["cost_usd"]["mean"]
    if ours is None or theirs is None:
        return ours != theirs
    return abs(ours - theirs) > 1e-6 * max(abs(ours), abs(theirs))


def _cost_range(document: PlanDocument) -> str:
    if document.cost_range_usd is None:
        return ""
    low, high = (dollars(usd).text for usd in document.cost_range_usd)
    return (
        f"Spot prices move: {low} in total at these prices, {high} were they to rise to on-demand."
    )


def _search(document: PlanDocument) -> str:
    more = document.considered_remainder
    remainder = f" and {more:,} with a remainder" if more else ""
    if document.plan is None:
        proof = "none of them meets the limits" if document.considered else "none exists"
    elif document.proved_optimal:
        proof = "proved to be the best of this space"
    elif document.gap is not None:
        proof = f"no plan of this space is better by more than {document.gap:.1%}".replace(
            "%", " %"
        )
    else:
        proof = "not all there are"
    return (
        f"{document.considered:,} configurations{remainder} considered in {document.seconds:.2f} s "
        f"({document.method or UNKNOWN}): {proof}."
    )
