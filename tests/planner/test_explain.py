"""What is said of a plan, checked by planning again."""

from dataclasses import replace

import pytest

from srifty.core import Limits, Market, Objective, Overheads
from srifty.core.explanation import ExplanationKind
from srifty.core.interruptions import InterruptionRate
from srifty.planner import explain, plan
from srifty.planner.explain_rival import excess_parts

OVERHEADS = Overheads(launch_s=100.0, checkpoint_auto=True, checkpoint_s=3.0)
LOSSES = InterruptionRate(0.2, 0.5)


@pytest.fixture(name="offers")
def _offers(market):
    return tuple(
        replace(o, interruptions=LOSSES) if o.market is Market.SPOT else o for o in market.offers
    )


def planner(market):
    return lambda job, offers, predictor: plan(job, offers, predictor, market.ranges)


def explained(market, job, offers):
    replan = planner(market)
    result = replan(job, offers, market.simulator)
    return result, explain(job, offers, market.simulator, result, replan)


def of(explanations, kind):
    return {each.subject: each for each in explanations if each.kind is kind}


def _saves_s(job, plan):
    told = plan.forecast.interruptions
    every = told.checkpoint_every if told is not None else None
    return 0 if every is None else job.iterations // every * job.overheads.checkpoint_s


def test_a_deadline_that_binds_is_named_with_what_more_of_it_buys(market, offers):
    free = market.job(64, overheads=OVERHEADS, iterations=4000)
    cheapest = planner(market)(free, offers, market.simulator).plan.forecast
    job = replace(free, limits=Limits(0.8 * cheapest.time_s.mean))
    result, explanations = explained(market, job, offers)
    binding = of(explanations, ExplanationKind.BINDING)["deadline"]
    assert binding.extra_usd < 0
    without = replace(job, limits=Limits())
    best = planner(market)(without, offers, market.simulator).plan
    assert binding.plan == best
    assert best.forecast.cost_usd.mean < result.plan.forecast.cost_usd.mean
    worth = [e for e in explanations if e.kind is ExplanationKind.WORTH and e.subject == "deadline"]
    assert worth
    # Each step is told until one helps.
    assert all(each.plan is None for each in worth[:-1])


def test_limits_that_do_not_bind_are_not_named(market, offers):
    job = market.job(64, overheads=OVERHEADS, limits=Limits(1e7, 1e7))
    _, explanations = explained(market, job, offers)
    assert not {"deadline", "budget"} & of(explanations, ExplanationKind.BINDING).keys()


def test_a_budget_that_binds(market, offers):
    free = market.job(64, overheads=OVERHEADS, objective=Objective.TIME, iterations=4000)
    fastest, second = planner(market)(free, offers, market.simulator).front[:2]
    assert second.forecast.cost_usd.mean < 0.98 * fastest.forecast.cost_usd.mean
    limits = Limits(None, 0.995 * fastest.forecast.cost_usd.mean, confidence=0.5)
    job = replace(free, limits=limits)
    _, explanations = explained(market, job, offers)
    binding = of(explanations, ExplanationKind.BINDING)["budget"]
    assert binding.extra_s < 0
    assert binding.plan.forecast.time_s.mean == pytest.approx(fastest.forecast.time_s.mean)


def test_one_more_vm_of_a_quota_that_binds(market):
    job = market.job(512, objective=Objective.TIME, overheads=Overheads(launch_s=100.0))
    result, explanations = explained(market, job, market.offers)
    binding = of(explanations, ExplanationKind.BINDING)
    used = {group.offer.label: 0 for group in result.plan.config.groups}
    for group in result.plan.config.groups:
        used[group.offer.label] += group.count
    for subject in binding:
        label = subject.removeprefix("quota of ")
        offer = next(o for o in market.offers if o.label == label)
        assert used[label] == offer.quota
        worth = of(explanations, ExplanationKind.WORTH)[subject]
        assert worth.plan is None or worth.extra_s < 0
    assert binding


@pytest.mark.parametrize("objective", list(Objective))
def test_parts_of_the_runner_ups_excess_sum_to_it(market, offers, objective):
    job = market.job(64, objective=objective, overheads=OVERHEADS, iterations=4000)
    result, explanations = explained(market, job, offers)
    for rival in result.ranking[1:]:
        parts = excess_parts(job, result.plan, rival, market.simulator)
        own, other = result.plan.forecast, rival.forecast
        excess = other.cost_usd.mean - own.cost_usd.mean
        if objective is Objective.TIME:
            excess = other.time_s.mean - own.time_s.mean
            saves = [_saves_s(job, plan) for plan in (result.plan, rival)]
            assert parts["checkpoints"] == pytest.approx(saves[1] - saves[0], abs=1e-9)
        assert sum(parts.values()) == pytest.approx(excess, rel=1e-9, abs=1e-12)
    runner_up = of(explanations, ExplanationKind.RUNNER_UP)["runner-up"]
    assert runner_up.plan == result.ranking[1]
    assert ("price" in runner_up.parts) == (objective is Objective.COST)


def test_a_runner_up_that_differs_in_price_alone_lost_by_price(market):
    # The twin's spot and on-demand VMs are the same machines.
    job = market.job(64, overheads=Overheads(launch_s=0.0), iterations=4000)
    twin = [o for o in market.offers if o.instance_type.name == "twin.2x"]
    plans = [plan(job, [o], market.simulator, market.ranges).plan for o in twin]
    parts = excess_parts(job, *plans, market.simulator)
    excess = plans[1].forecast.cost_usd.mean - plans[0].forecast.cost_usd.mean
    assert parts["price"] == pytest.approx(excess, rel=1e-9)
    assert all(abs(v) < 1e-9 for name, v in parts.items() if name != "price")


def test_other_worlds_are_planned_anew(market, offers):
    job = market.job(64, overheads=OVERHEADS, iterations=4000)
    _, explanations = explained(market, job, offers)
    worlds = of(explanations, ExplanationKind.SENSITIVITY)
    assert list(worlds) == ["bandwidth -20 %", "compute spread x2", "spot price +20 %", "losses x3"]
    # The new choice is never worse than what is kept, and both are forecast in the new world.
    assert all(world.extra_usd <= 1e-9 for world in worlds.values())
    dearer = tuple(
        replace(o, usd_per_hour=1.2 * o.usd_per_hour) if o.market is Market.SPOT else o
        for o in offers
    )
    expected = planner(market)(job, dearer, market.simulator).plan
    assert worlds["spot price +20 %"].plan == expected


def test_without_a_plan_nothing_is_explained(market):
    job = market.job(64, limits=Limits(1.0))
    result, explanations = explained(market, job, market.offers)
    assert result.plan is None
    assert explanations == ()
