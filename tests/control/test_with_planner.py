"""The planner's plans as candidates: what is left of a job is planned anew and decided on."""

from dataclasses import replace

from srifty.control import PolicyRule, PoolRule, Pools, Situation, decide
from srifty.control.situation import candidates_of, offers_left, remaining_job
from srifty.core import Limits, Market
from srifty.core.events import Cause, DecisionKind, Pool, Progress, VmEvent, VmEventKind
from tests.planner.conftest import make_market

RULE = PolicyRule(pools=PoolRule(cooldown_s=float("inf")))


def test_a_reclaimed_pool_is_planned_around_and_the_limits_still_hold():
    market = make_market()
    spot = [
        replace(offer, market=Market.SPOT, usd_per_hour=0.3 * offer.usd_per_hour)
        for offer in market.offers
        if offer.market is Market.ON_DEMAND
    ]
    offers = (*(o for o in market.offers if o.market is Market.ON_DEMAND), *spot)
    job = market.job(64, limits=Limits(deadline_s=20_000.0, budget_usd=50.0), iterations=2000)
    first = market.plan(job, offers)
    candidates = candidates_of(first)
    assert first.plan is not None
    assert first.plan.config in [candidate.config for candidate in candidates]
    begin = decide(job, candidates, Situation(0.0, 2000, has_begun=False), Pools(), RULE)
    assert (begin.kind, begin.config) == (DecisionKind.MOVE, first.plan.config)
    chosen = next(c for c in candidates if c.config == begin.config)
    assert not chosen.is_firm

    progress = Progress(1000.0, 500, 400, spent_usd=0.1)
    pools = Pools()
    for pool in chosen.vms:
        pools = pools.after(VmEvent(1000.0, VmEventKind.PREEMPTED, "vm1", pool), RULE.pools)
    rest = remaining_job(job, progress)
    assert rest is not None
    again = market.plan(rest, offers_left(offers, pools, {}, 1000.0))
    situation = Situation(1000.0, 1600, spent_usd=0.1, ordered=chosen)
    decision = decide(job, candidates_of(again), situation, pools, RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.LOST)
    assert decision.config is not None
    assert not {Pool.of(group.offer) for group in decision.config.groups} & set(chosen.vms)
    assert decision.number("chosen_finish_s") <= decision.number("time_left_s")
    assert decision.number("chosen_cost_usd") <= decision.number("money_left_usd")
