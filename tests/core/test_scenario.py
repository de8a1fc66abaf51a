from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.core import Location, Market
from srifty.core.events import Pool
from srifty.core.scenario import Act, Happening, PoolScript, Scenario, Supply
from srifty.errors import InputError

SPOT = Pool("a1.small", Location("us-east-1", "us-east-1a"), Market.SPOT)


def test_the_first_script_that_holds_counts():
    other, zone, rest = (
        PoolScript("b1.small"),
        PoolScript(zone="us-east-1a", market=Market.SPOT, boot_s=1.0),
        PoolScript(boot_s=2.0),
    )
    assert Scenario((other, zone, rest)).script(SPOT) is zone
    assert Scenario((other,)).script(SPOT) == PoolScript()


def test_who_is_taken_back_when_the_supply_falls():
    script = PoolScript(
        supply=(Supply(0.0, 3), Supply(100.0, 1), Supply(200.0, 0)),
        notice_s=120.0,
        happenings=((2, Happening(Act.DIE, at_s=5.0)),),
    )
    assert [script.supply_at(at) for at in (0.0, 99.0, 100.0, 1e9)] == [3, 3, 1, 0]
    fates = [script.fate(slot, slot + 1, 0.0) for slot in range(3)]
    back = [Happening(Act.PREEMPT, at_s=at, notice_s=120.0) for at in (200.0, 100.0)]
    assert fates == [(back[0],), (Happening(Act.DIE, at_s=5.0), back[1]), (back[1],)]
    assert script.fate(0, 9, 100.0) == (back[0],)
    assert PoolScript().supply_at(0.0) is None


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 4), st.integers(0, 7))
def test_a_vm_is_taken_back_at_the_first_shortage_after_its_grant(counts, slot, granted):
    script = PoolScript(supply=tuple(Supply(float(at), vms) for at, vms in enumerate(counts)))
    short = [float(at) for at, vms in enumerate(counts) if at > granted and vms <= slot]
    assert [what.at_s for what in script.fate(slot, 1, float(granted))] == short[:1]


@pytest.mark.parametrize(
    "fields",
    [
        {"act": Act.DIE},
        {"act": Act.DIE, "at_s": 1.0, "after_s": 1.0},
        {"act": Act.DIE, "at_s": -1.0},
        {"act": Act.DIE, "at_s": 1.0, "factor": 2.0},
        {"act": Act.SLOW, "at_s": 1.0},
        {"act": Act.SLOW, "at_s": 1.0, "factor": 0.5},
    ],
)
def test_happenings_that_make_no_sense_are_refused(fields):
    with pytest.raises(InputError):
        Happening(**fields)
