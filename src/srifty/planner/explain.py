"""Explains a plan: planned again with limits, prices and forecasts that are a little different.

Nothing here is a formula of its own: each statement compares two answers of the planner, or two
forecasts of one configuration, so that it holds whatever the search and the predictor are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from srifty.core.explanation import Explanation, ExplanationKind
from srifty.core.job import Job, Objective
from srifty.core.notation import format_config
from srifty.core.offers import Offer
from srifty.core.plan import Plan, PlanResult
from srifty.planner.explain_limits import Relaxation, relaxations_of
from srifty.planner.explain_rival import excess_parts
from srifty.planner.explain_worlds import OtherWorld, other_worlds
from srifty.simulator.predictor import Predictor
from srifty.units import format_duration, format_odds, format_usd

Replan = Callable[[Job, Sequence[Offer], Predictor], PlanResult]
Progress = Callable[[int, int], None]

# Gains below this share of the objective are no gains.
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class _Question:
    """What is to be explained.

    Attributes:
        job: the job.
        offers: what could be rented.
        predictor: what forecast iterations.
        chosen: the plan.
        ranking: the best plans, the chosen one first.
    """

    job: Job
    offers: tuple[Offer, ...]
    predictor: Predictor
    chosen: Plan
    ranking: tuple[Plan, ...]


def explain(
    job: Job,
    offers: Sequence[Offer],
    predictor: Predictor,
    result: PlanResult,
    replan: Replan,
    progress: Progress | None = None,
) -> tuple[Explanation, ...]:
    """Returns what holds a plan back, what more would buy, and what would change the choice.

    Args:
        job: the job that was planned.
        offers: what could be rented.
        predictor: what forecast iterations.
        result: the planner's answer; without a plan nothing is explained.
        replan: plans a job on other offers or with another predictor, as `result` was planned.
        progress: called with (done, all) plans now and then.
    """
    if result.plan is None:
        return ()
    question = _Question(job, tuple(offers), predictor, result.plan, result.ranking)
    relaxations = relaxations_of(job, question.offers, result.plan)
    worlds = other_worlds(question.offers, predictor)
    count, done = sum(len(r.steps) for r in relaxations) + len(worlds), 0
    found: list[Explanation] = []
    for relaxation in relaxations:
        found += _relaxed(question, relaxation, replan)
        done += len(relaxation.steps)
        if progress is not None:
            progress(done, count)
    found += _rivals(question)
    for world in worlds:
        found.append(_in_world(question, world, replan))
        done += 1
        if progress is not None:
            progress(done, count)
    return tuple(found)


def _relaxed(question: _Question, relaxation: Relaxation, replan: Replan) -> list[Explanation]:
    """Returns whether a limit binds, and what the first step that helps buys."""
    job, chosen = question.job, question.chosen
    found: list[Explanation] = []
    for index, step in enumerate(relaxation.steps):
        plan = replan(step.job, step.offers, question.predictor).plan
        gained = plan is not None and _gain(job, chosen, plan) > _LEAST_GAIN
        if index == 0:  # without the limit, or with much more of it
            if not gained or plan is None:
                return []
            message = f"{relaxation.name} binds: {step.words}, {_difference(job, chosen, plan)}."
            found.append(
                _explanation(ExplanationKind.BINDING, relaxation.subject, message, chosen, plan)
            )
        elif gained and plan is not None:
            message = f"{step.words} buys: {_difference(job, chosen, plan)}."
            found.append(
                _explanation(ExplanationKind.WORTH, relaxation.subject, message, chosen, plan)
            )
            return found
        else:
            message = f"{step.words} alone buys nothing."
            found.append(
                _explanation(ExplanationKind.WORTH, relaxation.subject, message, chosen, None)
            )
    return found


def _rivals(question: _Question) -> list[Explanation]:
    """Returns why the second-best plan lost: what of its excess comes from what."""
    job, chosen = question.job, question.chosen
    if len(question.ranking) < 2:
        return []
    rival = question.ranking[1]
    parts = excess_parts(job, chosen, rival, question.predictor)
    show = format_usd if job.objective is Objective.COST else format_duration
    excess = sum(parts.values())
    listed = ", ".join(
        f"{name} {'+' if value > 0 else '-'}{show(abs(value))}"
        for name, value in sorted(parts.items(), key=lambda item: -abs(item[1]))
        if abs(value) > 1e-3 * max(abs(v) for v in parts.values())
    )
    unit = "costs" if job.objective is Objective.COST else "takes"
    message = f"{format_config(rival.config)} {unit} {show(excess)} more: {listed or 'a tie'}."
    explanation = _explanation(
        ExplanationKind.RUNNER_UP, "runner-up", message, chosen, rival, parts
    )
    return [explanation]


def _in_world(question: _Question, world: OtherWorld, replan: Replan) -> Explanation:
    """Returns what is chosen in another world, and what becomes of the chosen plan there."""
    job = question.job
    kept = world.forecast(question.chosen, job)
    plan = replan(job, world.offers, world.predictor).plan
    if plan is None:
        message = f"{world.words} no plan meets the limits: {_outcome(kept)} for the chosen one."
    elif _same(plan, kept):
        message = f"{world.words} the choice stays: {_outcome(kept)}."
    else:
        message = (
            f"{world.words} the choice becomes {format_config(plan.config)}: {_outcome(plan)}; the "
            f"chosen one there: {_outcome(kept)}."
        )
    return _explanation(ExplanationKind.SENSITIVITY, world.subject, message, kept, plan)


def _same(plan: Plan, other: Plan) -> bool:
    return format_config(plan.config) == format_config(other.config)


def _outcome(plan: Plan) -> str:
    forecast = plan.forecast
    return (
        f"{format_usd(forecast.cost_usd.mean)} in {format_duration(forecast.time_s.mean)}, "
        f"{format_odds(forecast.success_probability)} within the limits"
    )


def _gain(job: Job, chosen: Plan, plan: Plan) -> float:
    """Returns by which share of the objective a plan is better than the chosen one."""
    old, new = _objective(job, chosen), _objective(job, plan)
    return (old - new) / max(old, 1e-300)


def _objective(job: Job, plan: Plan) -> float:
    forecast = plan.forecast
    return (forecast.cost_usd if job.objective is Objective.COST else forecast.time_s).mean


def _difference(job: Job, chosen: Plan, plan: Plan) -> str:
    """Returns what another plan saves, and what it takes for that."""
    saved = _objective(job, chosen) - _objective(job, plan)
    other = _outcome(plan)
    if job.objective is Objective.COST:
        return f"{format_usd(saved)} less ({format_config(plan.config)}: {other})"
    return f"{format_duration(saved)} sooner ({format_config(plan.config)}: {other})"


def _explanation(
    kind: ExplanationKind,
    subject: str,
    message: str,
    chosen: Plan,
    plan: Plan | None,
    parts: dict[str, float] | None = None,
) -> Explanation:
    extra_usd = extra_s = 0.0
    if plan is not None:
        extra_usd = plan.forecast.cost_usd.mean - chosen.forecast.cost_usd.mean
        extra_s = plan.forecast.time_s.mean - chosen.forecast.time_s.mean
    return Explanation(kind, subject, message, plan, extra_usd, extra_s, parts or {})
