import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is an extra")
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.training.order import order_of, seed_of


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**40), st.integers(0, 1000))
def test_each_sample_has_one_place(length, seed, epoch):
    found = order_of(length, seed, epoch)(np.arange(length))
    assert sorted(found.tolist()) == list(range(length))


@settings(deadline=None)
@given(st.integers(2, 3000), st.integers(0, 99), st.data())
def test_a_part_is_computed_as_in_the_whole(length, seed, data):
    order = order_of(length, seed, 3)
    places = data.draw(st.lists(st.integers(0, length - 1), max_size=20))
    whole = order(np.arange(length))
    assert order(np.array(places, np.int64)).tolist() == whole[places].tolist()


def test_all_orders_of_few_samples_are_equally_likely():
    # χ² of 24 orders over 12,000 seeds: 23 degrees of freedom, above 60 once in 30,000.
    counts = {}
    for seed in range(12_000):
        order = tuple(order_of(4, seed, 0)(np.arange(4)).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 60


def test_a_sample_is_anywhere_and_neighbours_part():
    places, gaps = [], []
    for seed in range(4000):
        first, second = order_of(1000, seed, 7)(np.array([0, 1]))
        places.append(first)
        gaps.append((second - first) % 1000)
    for values, cells, low in ((places, 10, 0), (gaps, 9, 1)):
        counts, _ = np.histogram(values, bins=cells, range=(low, 1000))
        expected = 4000 / cells
        assert ((counts - expected) ** 2 / expected).sum() < 40


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = {
        tuple(order_of(100, seed, epoch)(np.arange(100)).tolist())
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def test_seeds_differ_by_step_and_rank():
    seeds = {
        seed_of(seed, step, rank) for seed in (0, 1) for step in range(50) for rank in range(4)
    }
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
