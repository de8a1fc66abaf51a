"""Events, progress and decisions check themselves."""

import pytest

from srifty.core import Location, Market
from srifty.core.events import (
    Cause,
    Decision,
    DecisionKind,
    LaunchFailure,
    Pool,
    Progress,
    VmEvent,
    VmEventKind,
    WorkerStep,
)
from srifty.errors import InputError
from tests.builders import make_config, make_offer

POOL = Pool("a1.small", Location("us-east-1", "us-east-1a"), Market.SPOT)


def test_a_pool_is_that_of_its_offer_and_prints_all_three_parts():
    offer = make_offer(market=Market.SPOT)
    assert Pool.of(offer) == Pool("a1.small", offer.location, Market.SPOT)
    assert str(POOL) == "a1.small (spot, us-east-1a)"


@pytest.mark.parametrize(
    ("kind", "failure"),
    [(VmEventKind.FAILED, None), (VmEventKind.LAUNCHED, LaunchFailure.CAPACITY)],
)
def test_failures_and_only_failures_say_why(kind, failure):
    with pytest.raises(InputError, match="says why it failed"):
        VmEvent(0.0, kind, "vm1", POOL, failure)


def test_a_checkpoint_is_never_ahead_of_the_run():
    with pytest.raises(InputError, match="cannot be newer"):
        Progress(10.0, 5, durable_iteration=6)
    with pytest.raises(InputError, match="spent_usd"):
        Progress(10.0, 5, spent_usd=-1.0)


def test_worker_times_are_not_negative():
    with pytest.raises(InputError, match="worker 3: exchange_s"):
        WorkerStep(3, "vm1", 0.1, -0.1)


def test_only_staying_and_moving_have_a_configuration():
    config = make_config((make_offer(), 1, 64))
    with pytest.raises(InputError, match="decision to wait"):
        Decision(0.0, DecisionKind.WAIT, Cause.SLACK, config, 60.0)
    with pytest.raises(InputError, match="decision to move"):
        Decision(0.0, DecisionKind.MOVE, Cause.LOST, None, 60.0)


def test_figures_are_found_by_name():
    decision = Decision(
        0.0, DecisionKind.WAIT, Cause.SLACK, None, 60.0, numbers=(("margin_s", 12.0),)
    )
    assert decision.number("margin_s") == 12.0
    with pytest.raises(KeyError):
        decision.number("reserve_s")
