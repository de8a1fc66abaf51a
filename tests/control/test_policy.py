"""Decisions in given situations, each against what a person would work out by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.control import (
    Blame,
    Candidate,
    Culprit,
    Pace,
    PolicyRule,
    PoolRule,
    Pools,
    Situation,
    decide,
)
from srifty.control.outlook import Outlook
from srifty.control.situation import least_pace, remaining_job
from srifty.core import Market, Objective
from srifty.core.events import (
    Cause,
    DecisionKind,
    LaunchFailure,
    Pool,
    Progress,
    VmEvent,
    VmEventKind,
)
from srifty.errors import InputError

from .runs import LARGE, SMALL, candidate, counts, job, offer, vms_of

SPOT, FIRM = offer(SMALL, 0.3, Market.SPOT), offer(SMALL, 1.0)
OTHER = offer(LARGE, 4.0)
ON_SPOT = candidate((SPOT, 1), iteration_s=1.0)
ON_FIRM = candidate((FIRM, 1), iteration_s=1.0)
RULE = PolicyRule()


def gone(*events) -> Pools:
    pools = Pools()
    for event in events:
        pools = pools.after(event, RULE.pools)
    return pools


def no_capacity(at_s=0.0, pool=None) -> Pools:
    pool = pool or Pool.of(SPOT)
    return gone(VmEvent(at_s, VmEventKind.FAILED, "vm", pool, LaunchFailure.CAPACITY))


def running(plan: Candidate, now_s=1000.0, left=1000.0, **more) -> Situation:
    return Situation(
        now_s=now_s, iterations_left=left, running=plan, ordered=plan, ready=plan.vms, **more
    )


def test_spot_is_taken_where_losing_it_would_do_no_harm():
    decision = decide(
        job(3600, deadline_s=7200), (ON_SPOT, ON_FIRM), Situation(0.0, 3600, has_begun=False),
        Pools(), RULE,
    )  # fmt: skip
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.FIRST)
    assert decision.config == ON_SPOT.config


def test_spot_is_not_taken_where_losing_it_would_break_the_deadline():
    tight = job(3600, deadline_s=3600 + 150 + 100)
    decision = decide(
        tight, (ON_SPOT, ON_FIRM), Situation(0.0, 3600, has_begun=False), Pools(), RULE
    )
    assert decision.config == ON_FIRM.config


def test_without_capacity_it_waits_while_there_is_time():
    decision = decide(
        job(3600, deadline_s=9000), (ON_SPOT, ON_FIRM), Situation(0.0, 3600), no_capacity(), RULE
    )
    assert (decision.kind, decision.cause) == (DecisionKind.WAIT, Cause.SLACK)
    assert decision.config is None
    assert 0 < decision.look_again_s <= 60.0


def test_it_waits_no_longer_than_the_reserve_allows_and_the_deadline_holds():
    whole = job(3600, deadline_s=9000)
    now_s = 0.0
    while True:
        decision = decide(
            whole, (ON_SPOT, ON_FIRM), Situation(now_s, 3600), no_capacity(now_s), RULE
        )
        if decision.kind is not DecisionKind.WAIT:
            break
        now_s = decision.look_again_s
    assert decision.config == ON_FIRM.config
    assert decision.cause is Cause.NO_RETURN
    assert now_s > 1000.0
    assert now_s + 150 + 3600 <= 9000
    assert decision.number("fallback_finish_s") == pytest.approx(150 + 3600)


def test_without_a_deadline_nothing_is_waited_for():
    decision = decide(job(3600), (ON_SPOT, ON_FIRM), Situation(0.0, 3600), no_capacity(), RULE)
    assert decision.config == ON_FIRM.config


def test_on_demand_is_left_for_spot_while_there_is_time_to_lose_it():
    decision = decide(
        job(3600, deadline_s=7200), (ON_SPOT, ON_FIRM), running(ON_FIRM, left=3000.0), Pools(), RULE
    )
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.CHEAPER)
    assert decision.config == ON_SPOT.config
    assert decision.train_on


def test_past_the_point_of_no_return_on_demand_stays():
    late = running(ON_FIRM, now_s=4000.0, left=3000.0)
    decision = decide(job(3600, deadline_s=7100), (ON_SPOT, ON_FIRM), late, Pools(), RULE)
    assert (decision.kind, decision.config) == (DecisionKind.STAY, ON_FIRM.config)


def test_before_the_last_moment_spot_is_left_for_on_demand():
    late = running(ON_SPOT, now_s=4000.0, left=3000.0)
    decision = decide(job(3600, deadline_s=7200), (ON_SPOT, ON_FIRM), late, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.NO_RETURN)
    assert decision.config == ON_FIRM.config


@pytest.mark.parametrize(("price", "moves"), [(0.97, False), (0.90, True)])
def test_a_small_gain_moves_nothing(price, moves):
    other = candidate((offer(LARGE, price), 1), iteration_s=1.0)
    decision = decide(
        job(100_000, deadline_s=1e6), (ON_FIRM, other), running(ON_FIRM, left=90_000.0), Pools(),
        RULE,
    )  # fmt: skip
    assert (decision.kind is DecisionKind.MOVE) == moves


def test_switching_costs_are_paid_before_a_gain_counts():
    other = candidate((offer(LARGE, 0.9), 1), iteration_s=1.0)
    dear = job(100_000, deadline_s=1e6, setup_s=600.0, restore_s=600.0)
    nearly_done = running(ON_FIRM, left=2_000.0)
    assert decide(dear, (ON_FIRM, other), nearly_done, Pools(), RULE).kind is DecisionKind.STAY
    plenty = running(ON_FIRM, left=90_000.0)
    assert decide(dear, (ON_FIRM, other), plenty, Pools(), RULE).kind is DecisionKind.MOVE


def alarmed(plan: Candidate, pace: float, **more) -> Situation:
    return running(plan, pace=Pace(pace, pace, 300.0), alarm=True, **more)


def test_a_dearer_plan_that_rescues_the_deadline_is_taken():
    dear = candidate((offer(LARGE, 5.0), 2), iteration_s=0.5)
    situation = alarmed(ON_FIRM, 0.7, now_s=600.0, left=3000.0)
    decision = decide(job(3600, deadline_s=4000), (ON_FIRM, dear), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.LIMIT)
    assert decision.config == dear.config
    assert decision.number("present_finish_s") == pytest.approx(3000 / 0.7)
    assert decision.number("chosen_finish_s") <= decision.number("time_left_s")
    assert decision.number("chosen_cost_usd") > decision.number("present_cost_usd")


def test_of_several_rescues_the_best_by_the_objective_is_taken():
    dear = candidate((offer(LARGE, 5.0), 2), iteration_s=0.5)
    fair = candidate((offer(LARGE, 2.0), 2), iteration_s=0.6)
    situation = alarmed(ON_FIRM, 0.7, now_s=600.0, left=3000.0)
    whole = job(3600, deadline_s=4000)
    assert decide(whole, (ON_FIRM, dear, fair), situation, Pools(), RULE).config == fair.config
    soonest = replace(whole, objective=Objective.TIME)
    assert decide(soonest, (ON_FIRM, dear, fair), situation, Pools(), RULE).config == dear.config


def test_a_rescue_beyond_the_money_is_none():
    dear = candidate((offer(LARGE, 5.0), 2), iteration_s=0.5)
    situation = alarmed(ON_FIRM, 0.7, now_s=600.0, left=3000.0, spent_usd=0.2)
    poor = job(3600, deadline_s=4000, budget_usd=2.0)
    decision = decide(poor, (ON_FIRM, dear), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.STAY, Cause.NO_PLAN)


def test_an_alarm_without_a_way_out_changes_nothing():
    situation = alarmed(ON_FIRM, 0.7, now_s=600.0, left=3000.0)
    decision = decide(job(3600, deadline_s=4000), (ON_FIRM,), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.STAY, Cause.NO_PLAN)
    assert decision.config == ON_FIRM.config


def test_what_was_ordered_upon_an_alarm_is_not_ordered_anew_while_it_boots():
    fair = candidate((offer(LARGE, 2.0), 2), iteration_s=0.6)
    twin = candidate((offer(LARGE, 1.99), 2), iteration_s=0.6)
    situation = alarmed(ON_FIRM, 0.7, now_s=600.0, left=3000.0)
    pool = Pool.of(offer(LARGE, 2.0))
    booting = replace(situation, ordered=fair, booting={pool: 2}, boot_left_s=100.0)
    decision = decide(job(3600, deadline_s=4000), (ON_FIRM, fair, twin), booting, Pools(), RULE)
    assert (decision.kind, decision.config) == (DecisionKind.STAY, fair.config)


def test_one_slow_vm_is_replaced_and_the_others_train_on():
    plan = candidate((FIRM, 4), iteration_s=1.0)
    situation = alarmed(plan, 0.6, left=3000.0, slow_vm=("vm3", Pool.of(FIRM)))
    decision = decide(job(3600, deadline_s=4500), (plan,), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.SLOW_VM)
    assert decision.config == plan.config
    assert decision.replace == ("vm3",)
    assert decision.train_on


def test_without_an_alarm_a_slow_vm_is_replaced_too():
    plan = candidate((FIRM, 4), iteration_s=1.0)
    situation = running(plan, slow_vm=("vm3", Pool.of(FIRM)), pace=Pace(0.6, 0.62, 300.0))
    decision = decide(job(3600, deadline_s=9000), (plan,), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.SLOW_VM)
    assert (decision.config, decision.replace) == (plan.config, ("vm3",))


def test_a_slow_network_is_said_to_be_the_cause():
    plan, other = candidate((FIRM, 4), iteration_s=1.0), candidate((OTHER, 1), iteration_s=1.0)
    slow = Blame(Culprit.NETWORK, None, 0.7, 0.0, 0.65)
    situation = alarmed(plan, 0.6, left=3000.0, blame=slow)
    decision = decide(job(3600, deadline_s=4500), (plan, other), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.SLOW_NETWORK)
    assert decision.config == other.config
    assert decision.number("network_excess_s") == 0.65


def test_money_is_a_hard_cap():
    situation = running(ON_FIRM, spent_usd=0.99)
    decision = decide(job(3600, budget_usd=1.0), (ON_FIRM,), situation, Pools(), RULE)
    assert (decision.kind, decision.cause) == (DecisionKind.STOP, Cause.MONEY)


def test_what_the_money_lets_end_is_let_end():
    # A minute costs 1.7 cents; one is left, for 36 s: enough for 20 s of work, not for 50.
    for left, kind in ((20.0, DecisionKind.STAY), (50.0, DecisionKind.STOP)):
        situation = running(ON_FIRM, spent_usd=0.99, left=left)
        decision = decide(job(3600, budget_usd=1.0), (ON_FIRM,), situation, Pools(), RULE)
        assert decision.kind is kind
    assert decision.number("money_left_usd") == pytest.approx(0.01)


def test_survivors_are_kept_and_train_on_while_replacements_boot():
    """The paper's demonstration: one of two p3 is lost, 8 g3 are added to the survivor."""
    p3, g3 = offer(LARGE, 3.67, Market.SPOT), offer(SMALL, 0.9, Market.SPOT)
    two, survivor = candidate((p3, 2), iteration_s=0.38), candidate((p3, 1), iteration_s=0.76)
    mixed = candidate((p3, 1), (g3, 8), iteration_s=0.505)
    rule = PolicyRule(pools=PoolRule(cooldown_s=float("inf")))
    pools = Pools().after(VmEvent(223.0, VmEventKind.PREEMPTED, "vm2", Pool.of(p3)), rule.pools)
    situation = Situation(
        now_s=227.0,
        iterations_left=200.0,
        running=survivor,
        ordered=two,
        ready={Pool.of(p3): 1},
    )
    whole = job(400, deadline_s=500.0)
    decision = decide(whole, (two, survivor, mixed), situation, pools, rule)
    # The survivor alone trains on to 379 s, too: the paper stops it, and then it could not.
    assert decision.config == survivor.config
    slow = candidate((p3, 1), iteration_s=1.5)
    situation = replace(situation, running=slow)
    decision = decide(whole, (two, slow, mixed), situation, pools, rule)
    assert decision.config == mixed.config
    assert decision.train_on
    assert counts(vms_of(decision)) == {"b1.large spot": 1, "a1.small spot": 8}


def test_another_type_in_the_zone_and_another_zone_are_both_costed():
    """Adding to survivors keeps them; moving everything pays for new VMs, but they are cheaper."""
    kept = candidate((FIRM, 1), (offer(LARGE, 1.0), 1), iteration_s=1.0)
    moved_price = {True: 0.5, False: 0.98}
    for moves, price in moved_price.items():
        moved = candidate((offer(LARGE, price, Market.SPOT), 2), iteration_s=1.0)
        situation = Situation(
            1000.0, 50_000, running=candidate((FIRM, 1), iteration_s=2.0), ready=ON_FIRM.vms
        )
        decision = decide(
            job(60_000, deadline_s=90_000.0, setup_s=300.0), (kept, moved), situation, Pools(), RULE
        )
        assert (decision.config == moved.config) == moves


def test_nothing_to_be_had_is_waited_out_and_said():
    decision = decide(
        job(3600, deadline_s=5000), (ON_SPOT,), Situation(0.0, 3600), no_capacity(), RULE
    )
    assert (decision.kind, decision.cause) == (DecisionKind.WAIT, Cause.NO_PLAN)


def test_the_rest_of_a_job_has_what_is_left_of_everything():
    whole = job(400, deadline_s=500.0, budget_usd=2.5)
    rest = remaining_job(whole, Progress(222.0, 210, 200, spent_usd=0.5))
    assert rest.iterations == 200
    assert rest.limits.deadline_s == pytest.approx(278.0)
    assert rest.limits.budget_usd == pytest.approx(2.0)
    assert rest.overheads.setup_s == pytest.approx(5.0)
    assert remaining_job(whole, Progress(501.0, 210, 200)) is None
    assert remaining_job(whole, Progress(1.0, 400, 400)) is None
    assert remaining_job(whole, Progress(1.0, 4, 4, spent_usd=2.5)) is None


def test_the_least_pace_is_what_the_tighter_limit_asks_for():
    progress = Progress(100.0, 100, spent_usd=0.5)
    assert least_pace(job(400), progress, 3.6) == 0.0
    assert least_pace(job(400, deadline_s=700.0), progress, 3.6) == pytest.approx(300 / 600)
    both = job(400, deadline_s=700.0, budget_usd=0.8)
    assert least_pace(both, progress, 3.6) == pytest.approx(300 / 300)
    paused = job(400, deadline_s=700.0, checkpoint_every=100, checkpoint_s=100.0)
    assert least_pace(paused, progress, 3.6) == pytest.approx(300 / 300)
    assert least_pace(job(400, deadline_s=90.0), progress, 3.6) == float("inf")
    assert least_pace(job(100, deadline_s=90.0), progress, 3.6) == 0.0


def test_an_outlook_adds_up():
    plan = candidate((FIRM, 2), iteration_s=0.5)
    outlook = Outlook(
        job(3600, deadline_s=7200, setup_s=60.0), running(ON_FIRM, left=2000.0), Pools(), RULE
    )
    meanwhile = 210 / 1.0
    assert outlook.boot_s(plan) == 210.0
    assert outlook.finish_s(plan) == pytest.approx(210 + 5 + (2000 - meanwhile) * 0.5)
    later_s = 5 + (2000 - meanwhile) * 0.5
    assert outlook.cost_usd(plan) == pytest.approx((210 * 1 + later_s * 2 + 60 * 1) / 3600)
    assert outlook.finish_s(ON_FIRM) == pytest.approx(2000.0)
    assert outlook.cost_usd(ON_FIRM) == pytest.approx(2000 / 3600)


@settings(max_examples=60)
@given(
    now_s=st.floats(0, 9000),
    left=st.floats(1, 5000),
    at_risk=st.floats(0, 600),
    present=st.sampled_from(["spot", "firm", "none"]),
    is_closed=st.booleans(),
)
def test_whatever_happens_to_spot_on_demand_can_still_keep_the_deadline(
    now_s, left, at_risk, present, is_closed
):
    """Whatever is chosen: lost right before the next look, on-demand still ends in time."""
    whole = job(5000, deadline_s=10_000.0, checkpoint_every=600)
    plan = {"spot": ON_SPOT, "firm": ON_FIRM, "none": None}[present]
    situation = Situation(now_s, left, at_risk=0.0 if plan is None else at_risk)
    if plan is not None:
        situation = running(plan, now_s, left, at_risk=at_risk)
    start_s = 0.0 if plan is ON_FIRM else 150.0 + 5.0
    could = now_s + start_s + left <= 10_000.0
    pools = no_capacity(now_s) if is_closed and plan is not ON_SPOT else Pools()
    decision = decide(whole, (ON_SPOT, ON_FIRM), situation, pools, RULE)
    if not could or decision.config == ON_FIRM.config:
        return
    lost = 0.0 if plan is None else at_risk
    assert decision.look_again_s + 150.0 + 5.0 + left + lost - 60.0 <= 10_000.0


def test_senseless_rules_and_situations_are_refused():
    with pytest.raises(InputError, match="look_s"):
        PolicyRule(look_s=0.0)
    with pytest.raises(InputError, match="nothing runs"):
        Situation(0.0, 10.0, alarm=True)
    with pytest.raises(InputError, match="iteration_s"):
        Candidate.of(ON_SPOT.config, 0.0)
