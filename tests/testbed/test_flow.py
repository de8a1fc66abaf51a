import itertools

import pytest
from benchmarks.testbed.flow import spells


def test_spells_last_as_long_as_they_should_on_average():
    drawn = list(itertools.islice(spells(0.3, 0.1, seed=4), 20_000))
    assert [sends for sends, _ in drawn[:4]] == [True, False, True, False]
    for sends, mean_s in ((True, 0.3), (False, 0.1)):
        lengths_s = [length_s for on, length_s in drawn if on == sends]
        assert sum(lengths_s) / len(lengths_s) == pytest.approx(mean_s, rel=0.05)


def test_a_seed_gives_the_same_spells():
    def first(seed: int) -> list[tuple[bool, float]]:
        return list(itertools.islice(spells(1.0, 1.0, seed), 10))

    assert first(1) == first(1) != first(2)


def test_without_pauses_it_sends_all_the_time():
    assert all(sends for sends, _ in itertools.islice(spells(1.0, 0.0, seed=0), 10))
