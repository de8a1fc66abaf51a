from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.probing.budget import (
    MOST_OPERATION_S,
    SAMPLE_S,
    Rung,
    ladder,
    longest_s,
    may_try,
    share_out,
    that_fit,
)
from srifty.probing.grid import Cell, Grid
from srifty.units import MIB

TIMES = st.lists(st.floats(1e-6, 10.0), max_size=30)


def test_a_large_message_alone_is_approached_in_steps():
    rungs = ladder((Cell(512 * MIB),))
    assert rungs[0].cell.total_bytes == 4096
    assert [rung.in_grid for rung in rungs] == [False] * (len(rungs) - 1) + [True]


@given(st.lists(st.integers(1, 2**38), min_size=1, max_size=20, unique=True))
def test_the_ladder_holds_every_cell_and_no_wide_step(sizes):
    cells = tuple(Cell(size) for size in sorted(sizes))
    rungs = ladder(cells)
    assert tuple(rung.cell for rung in rungs if rung.in_grid) == cells
    totals = [512, *(rung.cell.total_bytes for rung in rungs)]
    for below, above in pairwise(totals):
        assert above <= 8 * below


def test_time_is_taken_to_grow_with_the_bytes_but_never_to_shrink():
    assert longest_s(None, 0.0, Cell(4)) == 0.0
    assert longest_s(Cell(MIB), 0.5, Cell(4 * MIB)) == 2.0
    assert longest_s(Cell(MIB), 0.5, Cell(MIB // 2, 2)) == 0.5


def test_a_rung_is_tried_only_if_its_samples_fit_too():
    grid = Grid((Cell(4), Cell(8)), repeats=5, warmup=2, budget_s=10.0)
    rung = Rung(Cell(8), in_grid=True)
    # 4 trials and 5 samples of 1 s fit into 10 s; with 0.3 s for each sample of the other, not.
    assert may_try(rung, 1.0, [], 0.0, grid)
    assert not may_try(rung, 1.0, [0.3], 0.0, grid)
    assert not may_try(rung, 1.0, [], 1.1, grid)
    assert may_try(Rung(Cell(8), in_grid=False), 1.0, [], 7.9, grid)


def test_an_operation_that_looks_like_a_hang_is_not_started():
    grid = Grid((Cell(4),), budget_s=1e6)
    assert may_try(Rung(Cell(8), in_grid=True), MOST_OPERATION_S, [], 0.0, grid)
    assert not may_try(Rung(Cell(8), in_grid=True), MOST_OPERATION_S * 1.01, [], 0.0, grid)


def test_with_time_enough_each_sample_lasts_a_tenth_of_a_second():
    assert share_out([1e-3, 0.05, 2.0], 5, 1000.0) == (round(SAMPLE_S / 1e-3), 2, 1)


def test_the_largest_are_dropped_first():
    assert len(share_out([0.01, 0.02, 5.0], 5, 2.0)) == 2
    assert share_out([1.0], 5, 2.0) == ()
    assert share_out([], 5, 2.0) == ()


@given(TIMES.map(sorted), st.integers(1, 20), st.floats(0, 200), st.floats(0, 0.1))
def test_the_plan_keeps_a_prefix_and_never_exceeds_the_time(times, repeats, left_s, overhead_s):
    inner = share_out(times, repeats, left_s, overhead_s)
    assert len(inner) <= len(times)
    assert all(count >= 1 for count in inner)
    spent = sum(count * time for count, time in zip(inner, times, strict=False))
    assert repeats * (spent + len(inner) * overhead_s) <= left_s
    if len(inner) < len(times):  # one cell more would not have fitted
        more = times[: len(inner) + 1]
        assert repeats * (sum(more) + len(more) * overhead_s) > 0.89 * left_s


@pytest.mark.parametrize(
    ("inner", "left_s", "count"), [(10, 100.0, 10), (10, 2.0, 4), (10, 0.4, 0), (10, -1.0, 0)]
)
def test_what_fits(inner, left_s, count):
    assert that_fit(0.5, inner, left_s) == count
