"""The anchored scheme: valid, never better than everything, and as the paper words it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import Limits, Market, Objective, Verdict, format_config
from srifty.core.job import BatchRule
from srifty.core.offers import QuotaPool
from srifty.errors import InputError
from srifty.planner import Method, plan
from srifty.planner import evaluate as evaluation
from srifty.planner.anchored import anchored
from srifty.planner.evaluate import evaluate
from srifty.planner.space import SpaceRule
from srifty.planner.supply import places_of, supplies_of
from srifty.simulator import ConfigTable, forecast_jobs

from .conftest import make_market
from .test_plan import check_plan, value_of


def places(market):
    every = places_of(market.offers, allow_cross_zone=False)
    return [supplies for place in every if (supplies := supplies_of(place, market.ranges))]


def searched(market, job, method, offers=None):
    return plan(job, offers or market.offers, market.simulator, market.ranges, method=method)


@settings(max_examples=30, deadline=None)
@given(
    quotas=st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2)),
    max_batches=st.tuples(st.integers(1, 16), st.integers(1, 16), st.integers(2, 8)),
    global_batch=st.integers(1, 24),
    rule=st.builds(SpaceRule, st.sampled_from(BatchRule), st.booleans()),
    objective=st.sampled_from(Objective),
    deadline=st.one_of(st.none(), st.floats(110, 2000)),
    budget=st.one_of(st.none(), st.floats(0.05, 5.0)),
)
def test_it_proposes_valid_plans_of_the_space_that_never_beat_its_best(
    quotas, max_batches, global_batch, rule, objective, deadline, budget
):
    market = make_market(quotas, max_batches)
    job = market.job(
        global_batch,
        batch_rule=rule.batch_rule,
        objective=objective,
        limits=Limits(deadline, budget),
    )
    mine = anchored(job, places(market), market.simulator, rule)
    every = evaluate(job, places(market), market.simulator, rule, whole=True)
    known = {format_config(every.configs.config(row)) for row in range(len(every))}
    for each in mine.plans(range(len(mine))):
        check_plan(market, job, each)
        assert format_config(each.config) in known
    ranked = mine.ranked(mine.feasible)
    if ranked.size:
        best = every.plan(int(every.ranked(every.feasible)[0]))
        mine_best = value_of(mine.plan(int(ranked[0])), objective)
        assert value_of(best, objective) <= mine_best * (1 + 1e-9)


def test_a_plan_says_how_it_was_found(market):
    result = searched(market, market.job(64), Method.ANCHORED)
    assert result.method == "anchored"
    assert result.verdict is Verdict.INCOMPLETE
    assert not result.proved_optimal
    assert any("anchored scheme" in sentence for sentence in result.assumptions)


def fewest_vms(market, batches, global_batch):
    """By plain loops: the fewest VMs whose workers of the given batches sum to the global batch."""
    kinds = list(dict.fromkeys(offer.instance_type for offer in market.offers))
    vms = [sum(o.quota for o in market.offers if o.instance_type == kind) for kind in kinds]
    choices = [range(most * kind.gpus + 1) for most, kind in zip(vms, kinds, strict=True)]
    counts = [
        sum(-(-w // kind.gpus) for w, kind in zip(workers, kinds, strict=True))
        for workers in product(*choices)
        if sum(w * b for w, b in zip(workers, batches, strict=True)) == global_batch
        and all(b or not w for w, b in zip(workers, batches, strict=True))
    ]
    return min(counts, default=None)


def test_each_anchor_gives_the_fewest_vms_of_the_largest_batches_within_its_latency():
    market = make_market((3, 2, 2), (32, 64, 16))
    job = market.job(96)
    found = anchored(job, places(market), market.simulator, SpaceRule(job.batch_rule))
    kinds = list(dict.fromkeys(offer.instance_type for offer in market.offers))
    models = [market.simulator.latency[kind.gpu] for kind in kinds]
    menus = [
        [2**e for e in range(7) if model.min_batch <= 2**e <= model.max_batch] for model in models
    ]

    def latency_s(model, batch):
        return float(model.step_s(np.array([float(batch)]))[0])

    expected = set()
    for model, menu in zip(models, menus, strict=True):
        for anchor in menu:
            target_s = latency_s(model, anchor) * (1 + 1e-9)
            batches = tuple(
                max((b for b in other if latency_s(m, b) <= target_s), default=0)
                for m, other in zip(models, menus, strict=True)
            )
            count = fewest_vms(market, batches, 96)
            if count is not None:
                expected.add((batches, count))
    proposals = {}
    for row in range(len(found)):
        config = found.configs.config(row)
        used = {g.offer.instance_type: g.local_batches[0] for g in config.groups}
        proposals[tuple(used.get(kind, 0) for kind in kinds)] = config.vms
    for batches, count in proposals.items():  # types that a program leaves out show a 0
        assert any(
            count == most and all(b in (0, full) for b, full in zip(batches, every, strict=True))
            for every, most in expected
        )
    assert 0 < len(proposals) <= len(expected)


def test_one_type_alone_is_searched_completely(market):
    offers = tuple(o for o in market.offers if o.instance_type.name == "slow.1x")
    for objective in Objective:
        job = market.job(64, objective=objective)
        mine, best = (searched(market, job, m, offers) for m in (Method.ANCHORED, Method.AUTO))
        assert value_of(mine.plan, objective) == value_of(best.plan, objective)


def test_the_budget_stands_in_the_program():
    market = make_market((8, 2, 0), (16, 64, 2))
    offers = tuple(replace(o, usd_per_hour=40.0) if o.quota == 2 else o for o in market.offers)
    job = market.job(64, objective=Objective.TIME)
    free = searched(market, job, Method.ANCHORED, offers)
    assert free.plan.forecast.cost_usd.mean > 0.5
    capped = searched(market, replace(job, limits=Limits(budget_usd=0.3)), Method.ANCHORED, offers)
    assert capped.plan.forecast.cost_usd.mean <= 0.3


def test_limits_that_nothing_keeps_leave_the_nearest_plan_and_say_that_others_may_do(market):
    job = market.job(64, limits=Limits(deadline_s=101.0))
    result = searched(market, job, Method.ANCHORED)
    assert result.plan is None
    assert result.verdict is Verdict.LIMITS_TOO_TIGHT
    assert result.nearest is not None
    assert any("--method" in warning for warning in result.warnings)


def test_a_shared_quota_holds(market):
    pool = QuotaPool("spot", 24)
    offers = tuple(
        replace(offer, quota=50, pools=(pool,)) if offer.market is Market.SPOT else offer
        for offer in market.offers
    )
    job = market.job(96)
    found = anchored(
        job,
        [supplies_of(offers, market.ranges)],
        market.simulator,
        SpaceRule(job.batch_rule),
    )
    assert len(found)
    for row in range(len(found)):
        groups = found.configs.config(row).groups
        spot = [g for g in groups if g.offer.market is Market.SPOT]
        assert sum(g.count * pool.weight(g.offer.instance_type) for g in spot) <= 24


def test_more_samples_than_memory_are_accumulated():
    market = make_market((2, 0, 0), (8, 1, 2))
    result = searched(market, market.job(64), Method.ANCHORED)
    assert max(g.accumulation for g in result.plan.config.groups) > 1


def test_what_it_proposes_is_simulated_as_ever(market):
    job = market.job(64)
    found = anchored(job, places(market), market.simulator, SpaceRule(job.batch_rule))
    configs = ConfigTable.from_configs([found.configs.config(r) for r in range(len(found))])
    jobs = forecast_jobs(job, configs, market.simulator.predict(job, configs))
    np.testing.assert_allclose(found.jobs.time_mean_s, jobs.time_mean_s)


def test_exhaustive_refuses_what_is_too_large_and_else_looks_at_everything(market, monkeypatch):
    job = market.job(64)
    every = searched(market, job, Method.EXHAUSTIVE)
    assert every.proved_optimal
    assert every.plan == searched(market, job, Method.AUTO).plan
    monkeypatch.setattr(evaluation, "MOST_WHOLE_ROWS", every.considered // 2)
    with pytest.raises(InputError, match="too many to look at each"):
        searched(market, job, Method.EXHAUSTIVE)


def test_prices_in_two_markets_are_used_cheapest_first(market):
    twins = tuple(o for o in market.offers if o.instance_type.name == "twin.2x")
    result = searched(market, market.job(160), Method.ANCHORED, twins)
    counts = {g.offer.market: g.count for g in result.plan.config.groups}
    assert counts == {Market.SPOT: 3, Market.ON_DEMAND: 2}


def test_the_solver_prints_nothing(capfd):
    market = make_market((2, 3, 2), (11, 2, 7))
    job = market.job(15, batch_rule=BatchRule.ANY)  # with presolve, HiGHS prints three lines
    assert len(anchored(job, places(market), market.simulator, SpaceRule(BatchRule.ANY)))
    assert capfd.readouterr().out == ""
