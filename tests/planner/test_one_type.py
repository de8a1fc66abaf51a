"""Configurations of one instance type, and what one worker alone takes."""

from __future__ import annotations

import numpy as np
import pytest

from srifty.core.job import BatchRule
from srifty.planner import one_type_configs, supplies_of, worker_speed
from srifty.planner.space import SpaceRule
from srifty.planner.worker_times import WorkerTimes, worker_times

from .brute_force import all_configs
from .conftest import make_market


@pytest.mark.parametrize("rule", list(BatchRule))
def test_they_are_those_of_brute_force_with_one_type(rule):
    market = make_market((3, 1, 2), (8, 16, 8))
    job = market.job(16, batch_rule=rule)
    supplies = supplies_of(market.offers, market.ranges)
    found = one_type_configs(job, [supplies])
    expected = [
        config
        for config in all_configs(job, market.offers, market.ranges)
        if len({group.offer.instance_type for group in config.groups}) == 1
    ]
    assert len(found) == len(expected) > 3
    assert sorted(found.world_size) == sorted(config.world_size for config in expected)
    for row in range(len(found)):
        config = found.config(row)
        assert config.samples == 16
        assert len({group.offer.instance_type for group in config.groups}) == 1


def test_several_passes_come_in_only_where_one_does_not_do():
    market = make_market((2, 0, 0), (8, 1, 2))
    supplies = supplies_of(market.offers, market.ranges)
    one = one_type_configs(market.job(16), [supplies])
    assert one.accumulation.max() == 1
    several = one_type_configs(market.job(64), [supplies])
    assert several.accumulation.min() > 1
    assert len(one_type_configs(market.job(24), [supplies]))  # no power of two sums to 24


def test_one_worker_is_asked_alone_at_each_allowed_batch():
    market = make_market((2, 1, 1), (32, 64, 16))
    slow = supplies_of(market.offers, market.ranges)[0]
    job = market.job(64)
    times = worker_times(job, slow, market.simulator, SpaceRule(job.batch_rule))
    np.testing.assert_array_equal(times.batches, [1, 2, 4, 8, 16, 32])
    model = market.simulator.latency["Slow"]
    np.testing.assert_allclose(times.latency_s, model.step_s(times.batches.astype(float)), rtol=0.1)
    assert times.largest_within(times.latency_s[3]) == 8
    assert times.largest_within(times.latency_s[0] / 2) == 0
    speed = worker_speed(job, market.simulator)
    assert speed(slow, 8) == pytest.approx(8 / times.latency_s[3])


def test_a_batch_after_a_dip_counts_as_its_slowest_predecessor():
    times = WorkerTimes(np.array([1, 2, 4]), np.array([3.0, 2.0, 5.0]))
    assert times.largest_within(2.5) == 0
    assert times.largest_within(3.0) == 2


def test_any_batches_are_spaced_where_there_are_very_many():
    market = make_market((2, 0, 0), (100_000, 1, 2))
    slow = supplies_of(market.offers, market.ranges)[0]
    job = market.job(100_000, batch_rule=BatchRule.ANY)
    times = worker_times(job, slow, market.simulator, SpaceRule(job.batch_rule))
    assert 2000 < len(times.batches) <= 4096
    assert times.batches[0] == 1
    assert times.batches[-1] == slow.batches.most
