from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.control.fleet import Fleet, FleetVm, Phase, vms_by_pool
from srifty.core.events import LaunchFailure, Pool, VmEvent, VmEventKind
from tests.builders import make_config
from tests.control.runs import LARGE, SMALL, offer

ONE, TWO = offer(SMALL), offer(LARGE)
CONFIG = make_config((ONE, 2, 16), (TWO, 1, 32))


def event(kind: VmEventKind, vm: str, pool: Pool) -> VmEvent:
    failure = LaunchFailure.CAPACITY if kind is VmEventKind.FAILED else None
    return VmEvent(1.0, kind, vm, pool, failure)


def fleet(*vms: tuple[str, Pool, Phase]) -> Fleet:
    return Fleet({name: FleetVm(name, pool, 1, 0.0, phase) for name, pool, phase in vms})


def test_a_configuration_is_complete_once_all_its_vms_run():
    small, large = Pool.of(ONE), Pool.of(TWO)
    asked = fleet(("a", small, Phase.READY), ("b", small, Phase.ASKED), ("c", large, Phase.READY))
    assert asked.missing(CONFIG) == {}
    assert asked.members(CONFIG) is None
    ready = asked.after(event(VmEventKind.LAUNCHED, "b", small))
    assert [vm.vm for vm in ready.members(CONFIG)] == ["a", "b", "c"]
    assert ready.surplus(CONFIG, ()) == []


def test_a_vm_that_is_noticed_or_released_is_missing():
    small, large = Pool.of(ONE), Pool.of(TWO)
    ready = fleet(("a", small, Phase.READY), ("b", small, Phase.READY), ("c", large, Phase.READY))
    noticed = ready.after(event(VmEventKind.NOTICE, "a", small))
    assert noticed.missing(CONFIG) == {small: 1}
    assert noticed.vms["a"].can_train
    assert ready.releasing(["b"]).missing(CONFIG) == {small: 1}


def test_the_surplus_begins_with_what_does_not_train():
    small = Pool.of(ONE)
    vms = [("a", small, Phase.READY), ("b", small, Phase.READY), ("c", small, Phase.ASKED)]
    assert fleet(*vms).surplus(make_config((ONE, 1, 64)), ["b"]) == ["a", "c"]
    assert sorted(fleet(*vms).surplus(None, ["b"])) == ["a", "b", "c"]


@given(st.lists(st.sampled_from([*VmEventKind]), max_size=8))
def test_what_is_gone_stays_gone(kinds):
    small = Pool.of(ONE)
    seen = fleet(("a", small, Phase.ASKED))
    was_gone = False
    for kind in kinds:
        seen = seen.after(event(kind, "a", small))
        is_gone = seen.vms["a"].phase is Phase.GONE
        assert is_gone or not was_gone
        was_gone = is_gone
    assert seen.still_there() == ([] if was_gone else ["a"])


def test_pools_of_a_configuration_are_counted_over_its_groups():
    assert vms_by_pool(CONFIG) == {Pool.of(ONE): 2, Pool.of(TWO): 1}
    with pytest.raises(KeyError):
        fleet().releasing(["nobody"])
