"""The planner's entry: looks at the configurations, picks the best, explains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from srifty.core.cluster import VmGroup
from srifty.core.job import BatchRule, Job
from srifty.core.offers import Market, Offer
from srifty.core.plan import PlanResult, Reason, Verdict
from srifty.planner.evaluate import Candidates, Progress, evaluate
from srifty.planner.front import knee_of, marginals_of, pareto_front
from srifty.planner.hints import wider_space_hints
from srifty.planner.reasons import (
    forecast_reasons,
    limit_reasons,
    memory_reasons,
    more_supply_reasons,
    no_configuration_reasons,
)
from srifty.planner.space import SpaceRule
from srifty.planner.supply import BatchRange, TypeSupply, supplies_of
from srifty.simulator.predictor import Predictor
from srifty.simulator.transfers import job_transfers
from srifty.units import format_duration

MethodName = Literal["exhaustive"]

# Odds below which two hopeless plans are told apart by how far they miss, not by their odds: there,
# the plan with the widest spread would win.
_HOPEFUL = 0.2
# Configurations that are looked at to find out which other quota would give a plan.
_HINT_ROWS = 5_000


@dataclass(frozen=True)
class _Search:
    """What was searched, and what had to be given up for it.

    Attributes:
        candidates: the configurations that were looked at.
        warnings: which usual rule had to be lifted.
        assumptions: how the space was narrowed.
    """

    candidates: Candidates
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]


def plan(
    job: Job,
    offers: Sequence[Offer],
    predictor: Predictor,
    batch_ranges: Mapping[str, BatchRange],
    *,
    top: int = 5,
    progress: Progress | None = None,
) -> PlanResult:
    """Returns the best plan for a job, or why there is none.

    Accumulation is a last resort: configurations with several passes per iteration are looked at
    only where none with one pass meets the limits.

    Args:
        job: what is trained, and within which limits.
        offers: what can be rented; all in one place.
        predictor: forecasts iterations.
        batch_ranges: micro-batch range by GPU model; offers with another GPU are left out.
        top: how many plans the ranking holds.
        progress: called with (done, all) configurations now and then.
    """
    began = time.perf_counter()
    supplies = supplies_of(offers, batch_ranges)
    missing = sorted(
        {o.instance_type.gpu for o in offers if o.instance_type.gpu not in batch_ranges}
    )
    search = _search(job, supplies, predictor, progress)
    found = search.candidates
    feasible = found.feasible
    ranked = found.ranked(feasible)
    front = pareto_front(found.jobs.time_mean_s, found.jobs.cost_mean_usd)
    front_plans = found.plans(front)
    chosen = found.plan(int(ranked[0])) if ranked.size else None
    nearest = None
    reasons: tuple[Reason, ...] = ()
    if chosen is not None:
        verdict = Verdict.OPTIMAL if found.splits.complete else Verdict.INCOMPLETE
    elif len(found):
        verdict = Verdict.LIMITS_TOO_TIGHT
        nearest = found.plan(_nearest_row(found))
        reasons = _limit_reasons(job, supplies, found, predictor)
    else:
        verdict = Verdict.NO_CONFIGURATION
        reasons = no_configuration_reasons(job, supplies, missing)
    used = [o for o in offers if o.instance_type.gpu in batch_ranges]
    best = chosen or nearest
    shown = [group.offer for group in best.config.groups] if best else used
    warnings = list(search.warnings)
    warnings += [f"{gpu} is offered, but has no workload profile: left out." for gpu in missing]
    if job_transfers(job) is None:
        warnings.append(
            "No gradient sizes are known: the exchange between GPUs is left out, so that times and "
            "costs of plans with several GPUs are too low."
        )
    if chosen is not None:
        warnings += _batch_warnings(chosen.config.groups, batch_ranges)
    return PlanResult(
        verdict=verdict,
        plan=chosen,
        ranking=found.plans(ranked[:top]),
        front=front_plans,
        knee=knee_of(found.jobs.time_mean_s[front], found.jobs.cost_mean_usd[front]),
        marginals=(
            marginals_of(chosen, front_plans) + wider_space_hints(job, supplies, predictor, chosen)
            if chosen is not None
            else ()
        ),
        nearest=nearest,
        reasons=reasons,
        warnings=tuple(warnings),
        assumptions=(
            search.assumptions + predictor.assumptions(job, shown) + _bill_assumptions(job, shown)
        ),
        method="exhaustive",
        considered=int((~found.splits.has_remainder).sum()),
        considered_remainder=int(found.splits.has_remainder.sum()),
        proved_optimal=chosen is not None and found.splits.complete,
        seconds=time.perf_counter() - began,
    )


def _search(
    job: Job,
    supplies: Sequence[TypeSupply],
    predictor: Predictor,
    progress: Progress | None = None,
) -> _Search:
    """Looks at ever wider spaces until one holds a plan that meets the limits."""
    warnings: list[str] = []
    assumptions: list[str] = []
    rule = SpaceRule(job.batch_rule, accumulate=job.accumulate)
    found = _look(job, supplies, predictor, rule, progress, assumptions)
    if not job.accumulate and (not len(found) or not found.feasible.any()):
        passes = replace(rule, accumulate=True)
        wider = _look(job, supplies, predictor, passes, progress, assumptions)
        if len(wider) > len(found):
            if wider.feasible.any():
                warnings.append(
                    "Gradients are accumulated over several passes: within quota and memory, no "
                    "plan with one pass per iteration meets the limits."
                )
            found = wider
    if not len(found) and job.batch_rule is BatchRule.POWER_OF_TWO:
        lifted = _search(replace(job, batch_rule=BatchRule.ANY), supplies, predictor, progress)
        if len(lifted.candidates):
            warnings.append(
                f"No power-of-two local batches sum to {job.global_batch:,} here; local batches of "
                "any size are used."
            )
            found = replace(lifted.candidates, job=job)
            warnings += lifted.warnings
            assumptions += lifted.assumptions
    return _Search(found, tuple(warnings), tuple(dict.fromkeys(assumptions)))


def _look(
    job: Job,
    supplies: Sequence[TypeSupply],
    predictor: Predictor,
    rule: SpaceRule,
    progress: Progress | None,
    assumptions: list[str],
) -> Candidates:
    """Looks at one space and says how it was narrowed."""
    found = evaluate(job, supplies, predictor, rule, progress)
    if found.splits.thinning:
        assumptions.append(f"The search space was thinned: {found.splits.thinning}.")
    return found


def _limit_reasons(
    job: Job, supplies: Sequence[TypeSupply], found: Candidates, predictor: Predictor
) -> tuple[Reason, ...]:
    def search(wider: Sequence[TypeSupply], batch_rule: BatchRule) -> Candidates:
        rule = SpaceRule(batch_rule)
        return evaluate(job, wider, predictor, rule, most_rows=_HINT_ROWS)

    return (
        *limit_reasons(job, found),
        *memory_reasons(job, supplies),
        *forecast_reasons(job, found, _nearest_row(found)),
        *more_supply_reasons(job, supplies, search),
    )


def _bill_assumptions(job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
    launch = format_duration(job.overheads.launch_s)
    sentences = [f"VMs are billed per second from running to stop; launching ({launch}) is not."]
    if any(offer.market is Market.SPOT for offer in offers):
        sentences.append("Spot VMs are assumed to stay: reclaims cost no time here.")
    return tuple(sentences)


def _nearest_row(found: Candidates) -> int:
    """Returns the row most likely to meet the limits; among hopeless ones the least excessive."""
    odds = found.jobs.success_probability
    if odds.max() >= _HOPEFUL:
        return int(odds.argmax())
    limits = found.job.limits
    excess = np.ones(len(found))
    if limits.deadline_s is not None:
        excess *= np.maximum(found.needed_time_s / limits.deadline_s, 1)
    if limits.budget_usd is not None:
        excess *= np.maximum(found.needed_usd / limits.budget_usd, 1)
    return int(excess.argmin())


def _batch_warnings(groups: Sequence[VmGroup], ranges: Mapping[str, BatchRange]) -> list[str]:
    """Returns a warning for each GPU whose micro-batch is little use, or was not measured."""
    sentences: list[str] = []
    for gpu, batch in {g.offer.instance_type.gpu: g.micro_batch for g in groups}.items():
        known = ranges[gpu]
        samples = f"{batch} sample{'s' if batch > 1 else ''} per pass on {gpu}"
        if not known.measured[0] <= batch <= known.measured[1]:
            low, high = known.measured
            sentences.append(
                f"{samples}: measured were {low} to {high}, so its latency is extrapolated."
            )
        elif batch < known.knee:
            sentences.append(
                f"{samples} are below the useful batch ({known.knee}): passes hardly get shorter "
                "there."
            )
    return sentences
