"""Branch and bound against brute force: the optimum, the bounds, and what a time limit leaves."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import Limits, Market, Objective, ReasonKind, Verdict
from srifty.core.job import BatchRule
from srifty.planner import places_of, plan, supplies_of
from srifty.planner.evaluate import forecast_splits
from srifty.planner.search import Place, search
from srifty.planner.search.nodes import Nodes
from srifty.planner.space import SpaceRule, every_split

from .conftest import make_market
from .random_problems import Problem, best_by_force, random_problem

MANY = 300
SEARCH_ONLY = {"exhaustive_rows": -1, "time_limit_s": 600.0}


def value_of(problem, found) -> float:
    forecast = found.forecast
    by_time = problem.job.objective is Objective.TIME
    return (forecast.time_s if by_time else forecast.cost_usd).mean


def check_against_force(seed: int, most: int) -> bool:
    """Whether a random problem is small enough; fails where its plan is not the best there is."""
    problem = random_problem(seed)
    known = best_by_force(problem, most)
    if known is None:
        return False
    best, _ = known
    result = plan(problem.job, problem.offers, problem.simulator, problem.ranges, **SEARCH_ONLY)
    if best is None:  # several passes, or batches of any size, are the last resort
        assert (
            result.plan is None
            or any(group.accumulation > 1 for group in result.plan.config.groups)
            or any("No power-of-two" in warning for warning in result.warnings)
        ), seed
        return True
    assert result.plan is not None, seed
    # The straggler integral depends a little on how equal workers are grouped into offers.
    assert value_of(problem, result.plan) == pytest.approx(best, rel=1e-6), seed
    assert result.proved_optimal, seed
    assert result.gap == 0
    return True


@pytest.mark.parametrize("part", range(10))
def test_random_problems_get_the_plan_that_brute_force_finds(part):
    """20 a part; `benchmarks/planner_optimality.py` looks at 2,000 of up to 20,000 points."""
    seeds = (seed for seed in count(1000 * part) if check_against_force(seed, MANY))
    for _ in range(20):
        next(seeds)


def trees_of(problem, rule):
    bounds = problem.simulator.bounds(problem.job)
    places = [
        supplies_of(place, problem.ranges)
        for place in places_of(problem.offers, allow_cross_zone=False)
    ]
    return [Place.of(problem.job, place, rule, bounds, {}) for place in places if place]


def every_whole(tree: Place) -> list[Nodes]:
    """Returns all whole configurations that a tree holds; nothing is known that they must beat."""
    found: list[Nodes] = []
    waiting = [tree.root()]
    while waiting:
        nodes = waiting.pop()
        found += [whole for _, whole in tree.whole(nodes, np.inf) if len(whole)]
        waiting += [children for _, children in tree.partial(nodes, np.inf) if len(children)]
    return found


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_no_bound_exceeds_what_is_simulated_and_nothing_feasible_is_cut_off(seed):
    problem = random_problem(seed)
    if best_by_force(problem, MANY) is None:
        return
    job = problem.job
    rule = SpaceRule(job.batch_rule, accumulate=job.accumulate)
    for tree in trees_of(problem, rule):
        feasible = 0
        for nodes in every_whole(tree):
            # A node's bound is at least that of each node that it descends from.
            splits = tree.splits(nodes)
            assert (splits.samples.sum(axis=1) == job.global_batch).all()
            for row in range(len(nodes)):
                one = type(splits)(splits.workers[[row]], splits.samples[[row]])
                found = forecast_splits(job, [tree.supplies], [one], problem.simulator, rule)
                if not len(found):
                    continue
                by_time = job.objective is Objective.TIME
                values = found.jobs.time_mean_s if by_time else found.jobs.cost_mean_usd
                assert nodes.bound[row] <= values.min() * (1 + 1e-9)
                feasible += int(found.feasible.any())
        everything = _feasible_splits(problem, tree, rule)
        assert feasible == everything


def _feasible_splits(problem, tree, rule) -> int:
    """How many splits hold a feasible configuration, by the enumeration of small spaces."""
    splits = every_split(tree.supplies, problem.job.global_batch, rule, most_rows=10**6)
    number = 0
    for row in range(len(splits)):
        one = type(splits)(splits.workers[[row]], splits.samples[[row]])
        found = forecast_splits(problem.job, [tree.supplies], [one], problem.simulator, rule)
        number += bool(len(found) and found.feasible.any())
    return number


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("rule", list(BatchRule))
def test_a_search_that_is_cut_short_never_claims_too_much(rule, objective):
    market = make_market((12, 4, 6))
    job = market.job(256, batch_rule=rule, objective=objective, limits=Limits(confidence=0.5))
    space = SpaceRule(rule)
    best = market.plan(job).plan.forecast
    optimum = (best.time_s if objective is Objective.TIME else best.cost_usd).mean

    trees = trees_of(Problem(job, market.offers, market.simulator, market.ranges), space)
    gaps = []
    for looks in (1, 3, 10, 100):
        ticks = iter(range(10**9))

        def evaluate(number, splits):
            found = forecast_splits(
                job, [trees[number].supplies], [splits], market.simulator, space
            )
            values = (
                found.jobs.time_mean_s if objective is Objective.TIME else found.jobs.cost_mean_usd
            )
            return float(values[found.feasible].min(initial=np.inf))

        outcome = search(trees, evaluate, ends_at=looks, clock=lambda t=ticks: next(t))
        assert outcome.best >= optimum * (1 - 1e-9)
        assert outcome.bound <= optimum * (1 + 1e-9)
        assert outcome.best * (1 - outcome.gap) <= optimum * (1 + 1e-9)
        gaps.append(outcome.gap)
    assert gaps[-1] <= gaps[0]


def searched(market, job, offers=None):
    """Returns the answer of a search with all the time that it wants."""
    return plan(job, offers or market.offers, market.simulator, market.ranges, **SEARCH_ONLY)


def test_a_large_space_is_searched_and_its_proof_is_shown():
    market = make_market((60, 30, 40))
    job = market.job(2048, objective=Objective.COST)
    result = plan(job, market.offers, market.simulator, market.ranges, time_limit_s=600.0)
    assert result.method == "branch and bound"
    assert result.verdict is Verdict.OPTIMAL
    assert result.proved_optimal
    assert result.gap == 0
    assert result.front[-1] == result.plan


@pytest.mark.parametrize("rule", list(BatchRule))
def test_runners_up_are_seen_beside_the_optimum(rule):
    market = make_market((24, 8, 12))
    result = searched(market, market.job(512, batch_rule=rule))
    assert result.proved_optimal
    assert len(result.ranking) == 5
    assert all(plan.config.samples == 512 for plan in (*result.ranking, *result.front))
    costs = [plan.forecast.cost_usd.mean for plan in result.ranking]
    assert costs == sorted(costs)
    assert len(result.front) > 2


def test_both_ends_of_the_front_are_found():
    market = make_market((12, 4, 6))
    cheap = searched(market, market.job(256, objective=Objective.COST))
    fast = searched(market, market.job(256, objective=Objective.TIME))
    assert cheap.front[0].forecast.time_s.mean == pytest.approx(fast.plan.forecast.time_s.mean)
    assert fast.front[-1].forecast.cost_usd.mean == pytest.approx(cheap.plan.forecast.cost_usd.mean)


def test_nearest_limits_are_those_that_work():
    market = make_market((12, 4, 6))

    def ask(deadline_s):
        return searched(market, market.job(256, limits=Limits(deadline_s=deadline_s)))

    result = ask(150.0)
    assert result.plan is None
    (nearest,) = {r.nearest for r in result.reasons if r.kind is ReasonKind.DEADLINE}
    # Rows that are simulated together with others differ in their last digits.
    assert ask(nearest * (1 + 1e-9)).plan is not None
    assert ask(nearest * (1 - 1e-6)).plan is None


def test_a_predictor_without_bounds_is_asked_about_a_thinned_space():
    market = make_market((60, 30, 40))

    class Unbounded:
        predict = staticmethod(market.simulator.predict)
        warnings = staticmethod(market.simulator.warnings)
        assumptions = staticmethod(market.simulator.assumptions)

    job = market.job(2048, batch_rule=BatchRule.ANY)
    result = plan(job, market.offers, Unbounded(), market.ranges)
    assert result.method == "thinned"
    assert result.gap is None
    assert not result.proved_optimal
    assert any("narrowed" in sentence for sentence in result.assumptions)


def test_of_equal_plans_the_one_with_multiples_of_8_wins():
    market = make_market((0, 2, 0), (1, 64, 2))
    # Free of charge, all plans cost the same.
    owned = tuple(
        replace(offer, market=Market.OWNED, usd_per_hour=0.0) for offer in market.offers[1:2]
    )
    result = market.plan(market.job(48, batch_rule=BatchRule.ANY), owned)
    assert all(g.local_batches[0] % 8 == 0 for g in result.plan.config.groups)
