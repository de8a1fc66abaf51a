"""What a plan could gain from search spaces that are left out unless they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from srifty.core.job import BatchRule, Job, Objective
from srifty.core.notation import format_config
from srifty.core.plan import Marginal, Plan
from srifty.planner.explore import Clock, explore
from srifty.planner.space import SpaceRule
from srifty.planner.supply import TypeSupply
from srifty.simulator.predictor import Predictor
from srifty.units import format_duration, format_usd

# What a hint, which need not be the best one, may take: seconds, and a share of the time left.
_MOST_HINT_S = 0.5
_HINT_SHARE = 0.25
# Gains below this share are not worth a line.
_LEAST_GAIN = 0.03


def wider_space_hints(
    job: Job,
    places: Sequence[Sequence[TypeSupply]],
    predictor: Predictor,
    chosen: Plan,
    clock: Clock,
) -> tuple[Marginal, ...]:
    """Returns better plans that gradient accumulation or other local batches would allow.

    Args:
        job: the job that `chosen` was found for.
        places: what can be had in each place.
        predictor: forecasts iterations.
        chosen: the best plan of the space that was searched.
        clock: when the planner should be done: where no time is left, no hint is looked for.
    """
    variants: list[tuple[str, Job]] = []
    if not job.accumulate:
        variants.append(("Accumulating gradients (--accumulate)", replace(job, accumulate=True)))
    if job.batch_rule is BatchRule.POWER_OF_TWO:
        variants.append(
            ("Local batches of any size (--batches any)", replace(job, batch_rule=BatchRule.ANY))
        )
    hints: list[Marginal] = []
    for words, variant in variants:
        if clock.left_s <= 0:
            break
        rule = SpaceRule(variant.batch_rule, accumulate=variant.accumulate)
        short = replace(clock, limit_s=min(_MOST_HINT_S, _HINT_SHARE * clock.left_s))
        found = explore(variant, places, predictor, rule, short, best_only=True)
        ranked = found.ranked(found.feasible)
        if ranked.size:
            hint = _hint(words, job.objective, chosen, found.plan(int(ranked[0])))
            hints += [hint] if hint is not None else []
    return tuple(hints)


def _hint(words: str, objective: Objective, chosen: Plan, other: Plan) -> Marginal | None:
    extra_s = other.forecast.time_s.mean - chosen.forecast.time_s.mean
    extra_usd = other.forecast.cost_usd.mean - chosen.forecast.cost_usd.mean
    if objective is Objective.COST:
        gain = -extra_usd / max(chosen.forecast.cost_usd.mean, 1e-300)
        saves = f"save {format_usd(-extra_usd)}"
    else:
        gain = -extra_s / chosen.forecast.time_s.mean
        saves = f"end {format_duration(-extra_s)} sooner"
    if gain < _LEAST_GAIN:
        return None
    message = f"{words} would {saves}: {format_config(other.config)}"
    return Marginal(message, other, extra_usd, extra_s)
