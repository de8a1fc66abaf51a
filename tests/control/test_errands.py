"""Which VMs are rented to measure a job."""

from dataclasses import replace

from srifty.control.errands import Errand, Measure, errands_of, family_of
from srifty.core import Market
from tests.builders import make_offer, make_type

SMALL = make_offer(make_type("g4.small", gpu="T4"), 0.5, Market.SPOT, quota=4)
LARGE = make_offer(make_type("g4.large", gpu="T4", gpus=4), 3.0, Market.SPOT, quota=4)
LONE = make_offer(make_type("p3.huge", gpu="V100", gpus=8), 12.0, quota=1)
PROFILE, INSIDE, BETWEEN = Measure.PROFILE, Measure.INSIDE, Measure.BETWEEN


def test_one_of_each_gpu_and_a_pair_of_each_family():
    assert errands_of([LONE, LARGE, SMALL], profiles=True) == (
        Errand("g4", (SMALL,), 2, (PROFILE, BETWEEN)),
        Errand("p3", (LONE,), 1, (PROFILE, INSIDE)),
    )
    assert family_of(LARGE) == "g4"


def test_without_a_model_the_network_alone_is_measured():
    assert errands_of([SMALL, LONE], profiles=False) == (
        Errand("g4", (SMALL,), 2, (BETWEEN,)),
        Errand("p3", (LONE,), 1, (INSIDE,)),
    )
    assert errands_of([replace(SMALL, quota=1)], profiles=False) == ()


def test_a_pair_has_the_cheapest_type_with_a_quota_of_two():
    (errand,) = errands_of([replace(SMALL, quota=1), LARGE], profiles=True)
    assert (errand.offers, errand.vms) == ((LARGE,), 2)
    assert errand.measures == (PROFILE, INSIDE, BETWEEN)


def test_a_gpu_that_no_pair_has_is_profiled_alone():
    other = make_offer(make_type("g4.other", gpu="A10G"), 1.0, quota=4)
    first, second = errands_of([SMALL, other], profiles=True)
    assert first.offers == (SMALL,)
    assert second == Errand("gpu-A10G", (other,), 1, (PROFILE,))


def test_other_places_of_the_same_type_stand_by_the_cheapest_first():
    dear = replace(SMALL, usd_per_hour=0.9, market=Market.ON_DEMAND)
    (errand,) = errands_of([dear, SMALL], profiles=False)
    assert errand.offers == (SMALL, dear)
    assert errand.usd_per_hour == 1.8


def test_own_machines_and_what_cannot_be_had_are_left_out():
    owned = replace(SMALL, market=Market.OWNED, usd_per_hour=0.0)
    assert errands_of([owned, replace(LONE, quota=0)], profiles=True) == ()
