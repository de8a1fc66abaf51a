"""The planner against brute force, and its answers to awkward questions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import Limits, Objective, ReasonKind, Verdict, format_config
from srifty.core.job import BatchRule
from srifty.core.offers import Market

from .brute_force import best_value
from .conftest import make_market


def value_of(plan, objective) -> float:
    forecast = plan.forecast
    return forecast.time_s.mean if objective is Objective.TIME else forecast.cost_usd.mean


def check_plan(market, job, plan) -> None:
    """What holds for every plan, whatever was asked."""
    config = plan.config
    assert config.samples == job.global_batch
    assert sum(sum(g.local_batches) * g.count for g in config.groups) == job.global_batch
    for offer in market.offers:
        used = sum(g.count for g in config.groups if g.offer == offer)
        assert used <= offer.quota
    for group in config.groups:
        limits = market.ranges[group.offer.instance_type.gpu]
        assert limits.least <= group.local_batches[-1] // group.accumulation
        assert group.micro_batch <= limits.most


@settings(max_examples=60, deadline=None)
@given(
    quotas=st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2)),
    max_batches=st.tuples(st.integers(1, 16), st.integers(1, 16), st.integers(2, 8)),
    global_batch=st.integers(1, 48),
    rule=st.sampled_from(BatchRule),
    objective=st.sampled_from(Objective),
    deadline=st.one_of(st.none(), st.floats(110, 2000)),
    budget=st.one_of(st.none(), st.floats(0.05, 5.0)),
    confidence=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_no_configuration_of_a_small_space_is_better(
    quotas, max_batches, global_batch, rule, objective, deadline, budget, confidence
):
    market = make_market(quotas, max_batches)
    job = market.job(
        global_batch,
        batch_rule=rule,
        objective=objective,
        limits=Limits(deadline, budget, confidence),
    )
    result = market.plan(job)
    best, count = best_value(job, market.offers, market.ranges, market.simulator)
    if result.plan is not None:
        check_plan(market, job, result.plan)
    if best is not None:
        assert result.plan is not None
        assert result.considered + result.considered_remainder == count
        assert result.proved_optimal
        # The oracle has one group per VM; the straggler integral's range depends on grouping.
        assert value_of(result.plan, objective) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("global_batch", [1, 2, 6, 37, 41, 480, 2100, 6144, 1_048_576, 10**9])
@pytest.mark.parametrize("rule", list(BatchRule))
def test_every_global_batch_is_dealt_exactly_or_refused_with_reasons(market, global_batch, rule):
    job = market.job(global_batch, batch_rule=rule)
    result = market.plan(job)
    assert result.plan is not None
    check_plan(market, job, result.plan)
    for plan in (*result.ranking, *result.front):
        check_plan(market, job, plan)


def test_two_samples_leave_gpus_of_a_vm_idle():
    market = make_market((0, 1, 0))
    result = market.plan(market.job(2, objective=Objective.TIME))
    assert format_config(result.plan.config) in ("1fast.4x:2gpu@2", "1fast.4x:1gpu@2")


def test_37_samples_on_four_gpus_differ_by_at_most_one():
    market = make_market((0, 1, 0))
    result = market.plan(market.job(37, objective=Objective.TIME))
    assert result.plan.config.groups[0].local_batches == (10, 9, 9, 9)
    assert any("any size" in warning for warning in result.warnings)


def test_480_on_sixty_vms_has_18_equal_splits_and_3_by_powers_of_two():
    market = make_market((60, 0, 0), (480, 1, 2))
    equal = market.plan(market.job(480, batch_rule=BatchRule.ANY))
    assert equal.considered == 18
    assert market.plan(market.job(480)).considered == 3


def test_cheapest_market_is_used_first(market):
    offers = tuple(o for o in market.offers if o.instance_type.name == "twin.2x")
    result = market.plan(market.job(160), offers)
    groups = {group.offer.market: group.count for group in result.plan.config.groups}
    assert groups == {Market.SPOT: 3, Market.ON_DEMAND: 2}


def test_accumulation_is_a_last_resort():
    market = make_market((2, 0, 0), (8, 1, 2))
    one_pass = market.plan(market.job(16))
    assert all(g.accumulation == 1 for g in one_pass.plan.config.groups)
    several = market.plan(market.job(64))
    assert max(g.accumulation for g in several.plan.config.groups) > 1
    assert any("accumulated" in warning for warning in several.warnings)


def test_a_batch_below_the_least_usable_one_has_a_reason():
    market = make_market((0, 0, 2))
    result = market.plan(market.job(1))
    assert result.verdict is Verdict.NO_CONFIGURATION
    assert [reason.kind for reason in result.reasons] == [ReasonKind.BATCH]


def test_no_quota_at_all_has_a_reason():
    market = make_market((0, 0, 0))
    result = market.plan(market.job(8))
    assert result.verdict is Verdict.NO_CONFIGURATION
    assert result.reasons[0].kind is ReasonKind.QUOTA


def test_front_is_a_front_and_holds_the_chosen_plan(market):
    result = market.plan(market.job(64))
    times = [plan.forecast.time_s.mean for plan in result.front]
    costs = [plan.forecast.cost_usd.mean for plan in result.front]
    assert times == sorted(times)
    assert costs == sorted(costs, reverse=True)
    assert result.plan == result.front[-1]
    assert result.knee is not None
    fastest = market.plan(market.job(64, objective=Objective.TIME))
    assert fastest.plan == fastest.front[0]


def test_marginals_buy_what_they_say(market):
    result = market.plan(market.job(64))
    faster = result.marginals[0]
    assert faster.extra_usd > 0 > faster.extra_s
    chosen = result.plan.forecast
    assert faster.plan.forecast.time_s.mean == pytest.approx(chosen.time_s.mean + faster.extra_s)
    assert faster.plan.forecast.cost_usd.mean == pytest.approx(
        chosen.cost_usd.mean + faster.extra_usd
    )


def test_ranking_is_best_first_and_feasible(market):
    limits = Limits(deadline_s=900.0, budget_usd=3.0)
    result = market.plan(market.job(64, limits=limits))
    costs = [plan.forecast.cost_usd.mean for plan in result.ranking]
    assert costs == sorted(costs)
    assert all(plan.forecast.success_probability >= 0.9 for plan in result.ranking)


def test_huge_batches_answer_within_the_row_limit(market):
    result = market.plan(market.job(10**9, batch_rule=BatchRule.ANY))
    assert result.considered + result.considered_remainder <= 200_000
    assert result.plan.config.samples == 10**9


def test_equal_plans_come_out_whatever_the_order_of_offers(market):
    job = market.job(64)
    forward = market.plan(job)
    backward = market.plan(job, tuple(reversed(market.offers)))
    assert forward.plan.forecast == backward.plan.forecast
    assert set(forward.plan.config.groups) == set(backward.plan.config.groups)


def test_offers_without_a_profile_are_named(market):
    job = market.job(32)
    ranges = {gpu: limits for gpu, limits in market.ranges.items() if gpu != "Fast"}
    result = replace(market, ranges=ranges).plan(job)
    assert any(warning.startswith("Fast") for warning in result.warnings)


def test_hints_name_better_plans_of_spaces_that_were_left_out(market):
    result = market.plan(market.job(37, objective=Objective.TIME))
    hints = [m for m in result.marginals if "--batches any" in m.message]
    powers = market.plan(market.job(36, objective=Objective.TIME))
    hints += [m for m in powers.marginals if "--batches any" in m.message]
    for hint in hints:
        assert hint.extra_s < 0
        assert hint.plan.config.samples in (36, 37)
    small = make_market((4, 0, 0), (8, 1, 2))
    one_pass = small.plan(small.job(32))
    (hint,) = [m for m in one_pass.marginals if "--accumulate" in m.message]
    assert hint.extra_usd < 0
    allowed = small.plan(small.job(32, accumulate=True))
    assert allowed.plan.config == hint.plan.config


def test_many_types_are_thinned_by_how_many_are_combined():
    market = make_market((8, 8, 8))
    kinds = [
        replace(offer, instance_type=replace(offer.instance_type, name=f"{offer.label[:4]}{i}.x"))
        for offer in market.offers[:3]
        for i in range(3)
    ]
    few = market.plan(market.job(256), tuple(kinds[:3]))
    many = market.plan(market.job(256), tuple(kinds))
    assert many.considered <= 100_000
    assert value_of(many.plan, Objective.COST) <= value_of(few.plan, Objective.COST) * (1 + 1e-9)
    if not many.proved_optimal:
        assert any("are combined" in sentence for sentence in many.assumptions)


def test_batches_that_were_not_measured_are_named():
    market = make_market((4, 0, 0), (32, 1, 2))
    measured = {gpu: replace(r, measured=(8, 16)) for gpu, r in market.ranges.items()}
    result = replace(market, ranges=measured).plan(market.job(4))
    assert any("extrapolated" in warning for warning in result.warnings)


def test_missing_gradients_are_a_warning(market):
    bare = tuple(replace(profile, gradients=None) for profile in market.profiles)
    result = market.plan(market.job(64, profiles=bare))
    assert any("No gradient sizes" in warning for warning in result.warnings)


def test_nearest_of_hopeless_plans_is_not_beaten_in_both_limits(market):
    result = market.plan(market.job(64, limits=Limits(deadline_s=101.0, budget_usd=0.01)))
    nearest = result.nearest.forecast
    for plan in result.front:
        worse_time = plan.forecast.time_s.p90 >= nearest.time_s.p90 * (1 - 1e-9)
        worse_cost = plan.forecast.cost_usd.p90 >= nearest.cost_usd.p90 * (1 - 1e-9)
        assert worse_time or worse_cost
