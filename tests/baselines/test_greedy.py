from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.baselines.greedy import full_batch_cheapest_first, magic_batch_fastest_first
from srifty.core import Market, format_config
from srifty.core.job import BatchRule
from srifty.core.offers import QuotaPool
from srifty.planner import BatchRange, supplies_of
from tests.builders import make_offer, make_type

CHEAP = make_offer(make_type("cheap.2x", "Cheap", gpus=2), 1.0, quota=4)  # 0.50 a GPU
DEAR = make_offer(make_type("dear.4x", "Dear", gpus=4), 8.0, quota=2)  # 2.00 a GPU
RANGES = {"Cheap": BatchRange(1, 1, 50), "Dear": BatchRange(1, 1, 200)}
POWERS = BatchRule.POWER_OF_TWO


def supplies(*offers, ranges=None):
    return supplies_of(offers or (DEAR, CHEAP), ranges or RANGES)


def speed(supply, batch):
    return 100.0 if supply.instance_type.gpu == "Dear" else 30.0 + batch / 100


def test_full_batches_fill_the_cheapest_gpus_first():
    found = full_batch_cheapest_first(supplies(), 256, POWERS)
    assert format_config(found) == "4cheap.2x@64"
    more = full_batch_cheapest_first(supplies(), 512, POWERS)
    assert format_config(more) == "4cheap.2x@64 + 1dear.4x@256"
    assert more.groups[0].local_batches == (32, 32)
    anything = full_batch_cheapest_first(supplies(), 256, BatchRule.ANY)
    assert format_config(anything) == "2cheap.2x@100 + 1cheap.2x@56"


def test_magic_batches_of_64_fill_the_fastest_gpus_first():
    found = magic_batch_fastest_first(supplies(), 256, POWERS, speed)
    assert format_config(found) == "1dear.4x@256"
    more = magic_batch_fastest_first(supplies(), 640, POWERS, speed)
    assert format_config(more) == "2dear.4x@256 + 2cheap.2x@64"


def test_too_few_gpus_for_the_magic_batch_are_packed_full():
    found = magic_batch_fastest_first(supplies(), 1024, POWERS, speed)
    assert format_config(found) == "2dear.4x@512"


def test_what_no_pass_holds_takes_several():
    found = full_batch_cheapest_first(supplies(CHEAP), 1024, POWERS)
    assert format_config(found) == "4cheap.2x@256x4"
    assert found.groups[0].micro_batch == 32


def test_a_shared_quota_counts_for_both_markets():
    pool = QuotaPool("G", 24)  # three VMs of 8 vCPUs
    spot = replace(CHEAP, market=Market.SPOT, usd_per_hour=0.4, pools=(pool,))
    found = full_batch_cheapest_first(supplies(replace(CHEAP, pools=(pool,)), spot), 192, POWERS)
    assert format_config(found) == "3cheap.2x (spot)@64"


def test_a_rest_below_the_least_batch_makes_no_choice():
    ranges = RANGES | {"Cheap": BatchRange(2, 2, 32)}
    assert full_batch_cheapest_first(supplies(CHEAP, ranges=ranges), 65, POWERS) is None
    assert full_batch_cheapest_first((), 64, POWERS) is None


@settings(max_examples=60, deadline=None)
@given(
    global_batch=st.integers(1, 3000),
    most=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    quota=st.tuples(st.integers(1, 9), st.integers(1, 5)),
    rule=st.sampled_from(BatchRule),
)
def test_choices_deal_the_global_batch_within_quota_and_memory(global_batch, most, quota, rule):
    ranges = {"Cheap": BatchRange(1, 1, most[0]), "Dear": BatchRange(1, 1, most[1])}
    offers = (replace(CHEAP, quota=quota[0]), replace(DEAR, quota=quota[1]))
    own = supplies(*offers, ranges=ranges)
    for config in (
        full_batch_cheapest_first(own, global_batch, rule),
        magic_batch_fastest_first(own, global_batch, rule, speed),
    ):
        if config is None:  # a rest of fewer samples than passes
            continue
        assert config.samples == global_batch
        for group in config.groups:
            assert group.micro_batch <= ranges[group.offer.instance_type.gpu].most
        for offer in offers:
            assert sum(g.count for g in config.groups if g.offer == offer) <= offer.quota


@pytest.mark.parametrize("global_batch", [1, 3, 64])
def test_one_pass_always_makes_a_choice(global_batch):
    assert full_batch_cheapest_first(supplies(), global_batch, POWERS) is not None
