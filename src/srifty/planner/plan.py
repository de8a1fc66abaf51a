"""The planner's entry: looks at the configurations, picks the best, explains."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from srifty.core.job import BatchRule, Job
from srifty.core.offers import Offer
from srifty.core.plan import Marginal, Plan, PlanResult, Reason, Verdict
from srifty.planner.anchored import anchored
from srifty.planner.evaluate import BoolArray, Candidates, Progress, evaluate
from srifty.planner.explore import EXHAUSTIVE_ROWS, SEARCH, Clock, explore
from srifty.planner.front import knee_of, marginals_of, pareto_front
from srifty.planner.hints import wider_space_hints
from srifty.planner.larger import larger_cluster_notes
from srifty.planner.method import Method
from srifty.planner.notes import bill_assumptions, plan_warnings
from srifty.planner.reasons import (
    forecast_reasons,
    limit_reasons,
    memory_reasons,
    more_supply_reasons,
    no_configuration_reasons,
    out_of_quota_reasons,
    reservation_reasons,
)
from srifty.planner.space import SpaceRule
from srifty.planner.supply import BatchRange, TypeSupply, places_of, supplies_of
from srifty.simulator.predictor import Predictor
from srifty.units import format_duration

# Odds below which two hopeless plans are told apart by how far they miss, not by their odds: there,
# the plan with the widest spread would win.
_HOPEFUL = 0.2
# Seconds that a search of a large space may take.
TIME_LIMIT_S = 5.0
# Seconds for finding out whether another quota would give a plan.
_HINT_S = 0.1

_Places = Sequence[Sequence[TypeSupply]]
_Look = Callable[[Job, _Places, Predictor, SpaceRule, Progress | None], Candidates]


@dataclass(frozen=True)
class _Search:
    """What was searched, and what had to be given up for it.

    Attributes:
        candidates: the configurations that were looked at.
        warnings: which usual rule had to be lifted.
    """

    candidates: Candidates
    warnings: tuple[str, ...]


def plan(
    job: Job,
    offers: Sequence[Offer],
    predictor: Predictor,
    batch_ranges: Mapping[str, BatchRange],
    *,
    allow_cross_zone: bool = False,
    prefer: Sequence[str] = (),
    top: int = 5,
    method: Method = Method.AUTO,
    progress: Progress | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    exhaustive_rows: int = EXHAUSTIVE_ROWS,
    now: Callable[[], float] = time.perf_counter,
) -> PlanResult:
    """Returns the best plan for a job, or why there is none.

    Configurations with several passes per iteration (accumulation) are looked at only where none
    with one pass meets the limits, unless the job lets them compete.

    Args:
        job: what is trained, and within which limits.
        offers: what can be rented.
        predictor: forecasts iterations.
        batch_ranges: micro-batch range by GPU model; offers with another GPU are left out.
        allow_cross_zone: whether one plan may use several zones of a region.
        prefer: names of instance types: the first that meets the limits by itself wins, then the
            first two together, and so on; other types are not used.
        top: how many plans the ranking holds.
        method: how to search.
        progress: called with (done, all) configurations now and then.
        time_limit_s: seconds after which a search ends with what it has found; what explains its
            answer comes on top.
        exhaustive_rows: spaces of no more configurations are looked at as a whole.
        now: tells the time in seconds.

    Raises:
        InputError: the space is too large for an exhaustive search.
    """
    clock = Clock(time_limit_s, exhaustive_rows, now)
    if prefer:
        offers = [offer for offer in offers if offer.instance_type.name in prefer]
    places = _places(offers, batch_ranges, allow_cross_zone=allow_cross_zone)

    def search_offers(wider: Sequence[Offer], batch_rule: BatchRule) -> Candidates:
        """Returns the configurations of other offers or another rule, to find what would help."""
        wider_places = _places(wider, batch_ranges, allow_cross_zone=allow_cross_zone)
        rule = SpaceRule(batch_rule, accumulate=job.accumulate)
        short = replace(clock, limit_s=_HINT_S)
        return explore(job, wider_places, predictor, rule, short, best_only=True)

    search = _search(job, places, predictor, _look_of(method, clock), progress)
    found = search.candidates
    ranked = found.ranked(_preferred(found, found.feasible, prefer))
    front = np.flatnonzero(found.available)
    front = front[pareto_front(found.jobs.time_mean_s[front], found.jobs.cost_mean_usd[front])]
    front_plans = found.plans(front)
    missing = sorted(
        {o.instance_type.gpu for o in offers if o.instance_type.gpu not in batch_ranges}
    )
    warnings = [*search.warnings]
    if not ranked.size and found.gap:
        warnings.append(
            f"The search ended after {format_duration(time_limit_s)}, before it was certain that "
            "no plan meets the limits: --time-limit gives it longer."
        )
    warnings += [f"{gpu} is offered, but has no workload profile: left out." for gpu in missing]
    chosen = nearest = None
    marginals: tuple[Marginal, ...] = ()
    reasons: tuple[Reason, ...] = ()
    if ranked.size:
        row = int(ranked[0])
        chosen = found.plan(row)
        marginals = marginals_of(chosen, front_plans)
        marginals += larger_cluster_notes(found, row, chosen)
        if not prefer:  # hints know of no preference
            marginals += wider_space_hints(job, places, predictor, chosen, clock)
        warnings += [reason.message for reason in reservation_reasons(found, row)]
    elif len(found):
        row = _nearest_row(found)
        nearest = found.plan(row)
        reasons = (
            *limit_reasons(job, found),
            *reservation_reasons(found),
            *memory_reasons(job, places),
            *forecast_reasons(job, found, row),
            *more_supply_reasons(job, offers, search_offers),
        )
    else:
        reasons = (
            *no_configuration_reasons(job, places, missing),
            *out_of_quota_reasons(offers),
        )
    if chosen is None and method is Method.ANCHORED:
        warnings.append(
            f"The anchored scheme proposed {len(found):,} configurations; others may do better: "
            "leave out --method to look for them."
        )
    best = chosen or nearest
    shown = [offer for place in places for supply in place for offer in supply.offers]
    if best is not None:
        shown = [group.offer for group in best.config.groups]
        warnings += plan_warnings(job, best, batch_ranges)
        warnings += predictor.warnings(job, best.config)
        warnings += [reason.message for reason in out_of_quota_reasons(offers)]
    narrowings = tuple(f"The search space was narrowed: {words}." for words in found.narrowings)
    return PlanResult(
        verdict=_verdict(found, feasible=chosen is not None),
        plan=chosen,
        ranking=found.plans(ranked[:top]),
        front=front_plans,
        knee=knee_of(found.jobs.time_mean_s[front], found.jobs.cost_mean_usd[front]),
        marginals=marginals,
        nearest=nearest,
        reasons=reasons,
        warnings=tuple(warnings),
        assumptions=narrowings + predictor.assumptions(job, shown) + bill_assumptions(job, shown),
        method=found.method,
        considered=int((~found.has_remainder).sum()),
        considered_remainder=int(found.has_remainder.sum()),
        proved_optimal=chosen is not None and found.gap == 0,
        gap=found.gap if chosen is not None else None,
        seconds=now() - clock.began_s,
    )


def _look_of(method: Method, clock: Clock) -> _Look:
    """Returns what looks for configurations with a method."""
    if method is Method.ANCHORED:
        return anchored
    if method is Method.EXHAUSTIVE:
        return partial(evaluate, whole=True)

    def look(
        job: Job,
        places: _Places,
        predictor: Predictor,
        rule: SpaceRule,
        progress: Progress | None = None,
    ) -> Candidates:
        return explore(job, places, predictor, rule, clock, progress)

    return look


def choose(
    job: Job,
    offers: Sequence[Offer],
    predictor: Predictor,
    batch_ranges: Mapping[str, BatchRange],
    *,
    allow_cross_zone: bool = False,
    prefer: Sequence[str] = (),
    method: Method = Method.AUTO,
    progress: Progress | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> Plan | None:
    """Returns the plan that `plan` chooses, without anything that explains it; None for no plan."""
    if prefer:
        offers = [offer for offer in offers if offer.instance_type.name in prefer]
    places = _places(offers, batch_ranges, allow_cross_zone=allow_cross_zone)
    look = _look_of(method, Clock(time_limit_s))
    found = _search(job, places, predictor, look, progress).candidates
    ranked = found.ranked(_preferred(found, found.feasible, prefer))
    return found.plan(int(ranked[0])) if ranked.size else None


def _verdict(found: Candidates, *, feasible: bool) -> Verdict:
    if feasible:
        return Verdict.OPTIMAL if found.gap == 0 else Verdict.INCOMPLETE
    return Verdict.LIMITS_TOO_TIGHT if len(found) else Verdict.NO_CONFIGURATION


def _places(
    offers: Sequence[Offer], batch_ranges: Mapping[str, BatchRange], *, allow_cross_zone: bool
) -> list[tuple[TypeSupply, ...]]:
    """Returns what can be had in each place in which the job could run."""
    return [
        supplies
        for place in places_of(offers, allow_cross_zone=allow_cross_zone)
        if (supplies := supplies_of(place, batch_ranges))
    ]


def _preferred(found: Candidates, among: BoolArray, prefer: Sequence[str]) -> BoolArray:
    """Returns the rows that use the fewest first types of `prefer`; all without a preference."""
    kinds = [offer.instance_type.name for offer in found.configs.offers]
    for count in range(1, len(prefer) + 1):
        outside = np.array([kind not in prefer[:count] for kind in kinds] or [False])
        within = ~(outside[found.configs.offer] & (found.configs.count > 0)).any(axis=1)
        if (within & among).any():
            return within & among
    return among


def _search(
    job: Job,
    places: _Places,
    predictor: Predictor,
    look: _Look,
    progress: Progress | None = None,
) -> _Search:
    """Looks at ever wider spaces until one holds a plan that meets the limits."""
    warnings: list[str] = []
    rule = SpaceRule(job.batch_rule, accumulate=job.accumulate)
    found = look(job, places, predictor, rule, progress)
    if not job.accumulate and (not len(found) or not found.feasible.any()):
        passes = replace(rule, accumulate=True)
        wider = look(job, places, predictor, passes, progress)
        if wider.method == SEARCH:  # a search sees few of those that the first look saw
            wider = Candidates.concatenate(job, [found, wider], method=wider.method, gap=wider.gap)
        if len(wider) > len(found):
            if wider.feasible.any():
                warnings.append(
                    "Gradients are accumulated over several passes: within quota and memory, no "
                    "plan with one pass per iteration meets the limits."
                )
            found = wider
    if not len(found) and job.batch_rule is BatchRule.POWER_OF_TWO:
        lifted = _search(replace(job, batch_rule=BatchRule.ANY), places, predictor, look, progress)
        if len(lifted.candidates):
            warnings.append(
                f"No power-of-two local batches sum to {job.global_batch:,} here; local batches of "
                "any size are used."
            )
            found = replace(lifted.candidates, job=job)
            warnings += lifted.warnings
    return _Search(found, tuple(warnings))


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
