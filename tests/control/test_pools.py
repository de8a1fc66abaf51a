"""Cool-downs by pool, and how long VMs last there."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.control import PoolRule, Pools
from srifty.control.situation import offers_left
from srifty.core import Location, Market
from srifty.core.events import LaunchFailure, Pool, VmEvent, VmEventKind
from srifty.errors import InputError
from tests.builders import make_offer

HERE = Pool("a1.small", Location("us-east-1", "us-east-1a"), Market.SPOT)
RULE = PoolRule(cooldown_s=1800.0, retry_s=60.0)


def event(at_s, kind, vm="vm1", pool=HERE, failure=None):
    return VmEvent(at_s, kind, vm, pool, failure)


def after(*events, rule=RULE):
    pools = Pools()
    for each in events:
        pools = pools.after(each, rule)
    return pools


def test_a_reclaim_closes_its_own_pool_and_no_other():
    pools = after(event(0.0, VmEventKind.LAUNCHED), event(100.0, VmEventKind.PREEMPTED))
    others = [
        Pool("a1.small", HERE.location, Market.ON_DEMAND),
        Pool("a1.small", Location("us-east-1", "us-east-1b"), Market.SPOT),
        Pool("b1.large", HERE.location, Market.SPOT),
    ]
    assert not pools.is_open(HERE, 101.0)
    assert not pools.is_open(HERE, 1899.0)
    assert pools.is_open(HERE, 1900.0)
    assert pools.next_opening_s(101.0) == 1900.0
    assert all(pools.is_open(other, 101.0) for other in others)


def test_the_papers_cool_down_is_the_rest_of_the_job():
    paper = PoolRule(cooldown_s=math.inf)
    pools = after(event(0.0, VmEventKind.LAUNCHED), event(100.0, VmEventKind.PREEMPTED), rule=paper)
    assert pools.is_lost(HERE)
    assert not pools.is_open(HERE, 1e9)


def test_a_notice_closes_the_pool_before_the_vm_is_gone():
    pools = after(event(0.0, VmEventKind.LAUNCHED), event(100.0, VmEventKind.NOTICE))
    assert not pools.is_open(HERE, 150.0)


@pytest.mark.parametrize("failure", [LaunchFailure.CAPACITY, LaunchFailure.THROTTLED])
def test_what_passes_is_asked_again(failure):
    pools = after(event(0.0, VmEventKind.FAILED, failure=failure))
    assert not pools.is_open(HERE, 59.0)
    assert pools.is_open(HERE, 60.0)


@pytest.mark.parametrize(
    "failure",
    [
        LaunchFailure.UNSUPPORTED,
        LaunchFailure.QUOTA,
        LaunchFailure.PERMISSION,
        LaunchFailure.UNKNOWN,
    ],
)
def test_what_does_not_pass_is_not_asked_again(failure):
    assert after(event(0.0, VmEventKind.FAILED, failure=failure)).is_lost(HERE)


def test_pauses_grow_up_to_a_limit_and_begin_anew_after_a_success():
    rule = PoolRule(retry_s=60.0, retry_growth=2.0, longest_retry_s=200.0)
    pools, now_s, pauses_s = Pools(), 0.0, []
    for _ in range(4):
        pools = pools.after(event(now_s, VmEventKind.FAILED, failure=LaunchFailure.CAPACITY), rule)
        pauses_s.append(pools.next_opening_s(now_s) - now_s)
        now_s += pauses_s[-1]
    assert pauses_s == [60.0, 120.0, 200.0, 200.0]
    pools = pools.after(event(now_s, VmEventKind.LAUNCHED), rule)
    pools = pools.after(event(now_s, VmEventKind.FAILED, failure=LaunchFailure.CAPACITY), rule)
    assert pools.next_opening_s(now_s) - now_s == 60.0


@given(stays_s=st.lists(st.floats(100.0, 1e5), min_size=1, max_size=8))
def test_how_long_vms_last_is_the_mean_of_guess_and_stays(stays_s):
    pools, now_s = Pools(), 0.0
    for stay_s in stays_s:
        pools = pools.after(event(now_s, VmEventKind.LAUNCHED), RULE)
        now_s += stay_s
        pools = pools.after(event(now_s, VmEventKind.PREEMPTED), RULE)
        now_s += 5000.0
    expected = (RULE.lasting_s + sum(stays_s)) / (1 + len(stays_s))
    assert pools.lasting_s(HERE, now_s, RULE) == pytest.approx(expected)


def test_many_vms_taken_at_once_are_one_reclaim_and_survivors_still_count():
    events = [event(0.0, VmEventKind.LAUNCHED, f"vm{i}") for i in range(4)]
    events += [event(1000.0, VmEventKind.PREEMPTED, f"vm{i}") for i in range(3)]
    pools = after(*events)
    assert pools.lasting_s(HERE, 1000.0, RULE) == pytest.approx((RULE.lasting_s + 1000) / 2)
    assert pools.lasting_s(HERE, 3000.0, RULE) == pytest.approx((RULE.lasting_s + 3000) / 2)
    gone = pools.released(HERE, "vm3", 3000.0)
    assert gone.lasting_s(HERE, 9000.0, RULE) == pytest.approx((RULE.lasting_s + 3000) / 2)


def test_firm_vms_last():
    firm = Pool("a1.small", HERE.location, Market.ON_DEMAND)
    pools = after(
        event(0.0, VmEventKind.LAUNCHED, pool=firm), event(9.0, VmEventKind.LOST, pool=firm)
    )
    assert pools.lasting_s(firm, 10.0, RULE) == math.inf
    assert pools.is_open(firm, 10.0)


def test_a_closed_pool_offers_what_is_held_and_no_more():
    spot, firm = make_offer(market=Market.SPOT, quota=8), make_offer(quota=8)
    pool = Pool.of(spot)
    pools = Pools().after(event(0.0, VmEventKind.PREEMPTED, pool=pool), RULE)
    assert [o.quota for o in offers_left((spot, firm), pools, {pool: 3}, 10.0)] == [3, 8]
    assert [o.quota for o in offers_left((spot, firm), pools, {pool: 3}, 5000.0)] == [8, 8]


@pytest.mark.parametrize("field", ["retry_s", "longest_retry_s", "lasting_s", "cooldown_s"])
def test_senseless_rules_are_refused(field):
    with pytest.raises(InputError, match=field):
        PoolRule(**{field: -1.0})
