"""Splits: what is held out together never teaches; the probes of a new world are never scored."""

from __future__ import annotations

import numpy as np
import pytest

from srifty.allreduce.splits import (
    By,
    folds_inside,
    folds_outside,
    probe_sizes,
    splits,
)
from srifty.allreduce.table import SampleTable

from .worlds import sweep

WORLDS = ((8, 2), (16, 4), (32, 8), (64, 16))


def table_of(*curves):
    return SampleTable.of([sample for curve in curves for sample in curve])


TABLE = table_of(
    sweep(worlds=((4, 1), *WORLDS), repeats=2), sweep("p3dn.24xlarge", worlds=((16, 2), (32, 4)))
)


def world_sizes(table, rows):
    return sorted({int(n) for n in table.world_size[rows]})


@pytest.mark.parametrize("by", list(By))
def test_what_is_scored_never_teaches(by):
    found = list(splits(TABLE, by))
    assert found
    for split in found:
        assert split.test.any()
        assert not (split.train & split.test).any()


def test_by_world_size_holds_out_worlds_with_a_smaller_and_a_larger_one():
    found = list(splits(TABLE, By.WORLD_SIZE))
    assert [world_sizes(TABLE, split.test) for split in found] == [[16], [32]]
    for split in found:
        held_out = world_sizes(TABLE, split.test)[0]
        assert not (split.train & (TABLE.curve == 0) & (TABLE.world_size == held_out)).any()
        assert (split.train & (TABLE.curve == 1)).sum() == (TABLE.curve == 1).sum()


def test_by_largest_world_size_learns_from_three_sizes_and_scores_the_others():
    first, second = splits(TABLE, By.LARGEST_WORLD_SIZE)
    assert world_sizes(TABLE, first.test) == [64]
    assert world_sizes(TABLE, second.test) == [32]
    probes = first.train & (TABLE.curve == 0) & (TABLE.world_size == 64)
    sizes = set(TABLE.size_bytes[probes].tolist())
    assert sizes == {4096.0, 2.0**20, 2.0**28}
    assert not sizes & set(TABLE.size_bytes[first.test].tolist())


def test_without_probes_nothing_of_the_largest_world_teaches():
    first = next(splits(TABLE, By.LARGEST_WORLD_SIZE, probes=False))
    assert not (first.train & (TABLE.curve == 0) & (TABLE.world_size == 64)).any()


def test_probes_are_the_measured_sizes_nearest_to_4_kib_1_mib_and_256_mib():
    assert probe_sizes(np.array([10.0, 5000.0, 2e6, 3e7])).tolist() == [5000.0, 2e6, 3e7]
    assert probe_sizes(np.array([64e6])).tolist() == [64e6]


def test_by_allocation_holds_out_runs_that_others_repeat():
    found = list(splits(TABLE, By.ALLOCATION))
    runs = [{TABLE.allocations[a][1] for a in TABLE.allocation[split.test]} for split in found]
    assert runs == [{"0"}, {"1"}]


def test_transfers_side_by_side_are_never_scored():
    table = table_of(sweep(), sweep(concurrent=2))
    for by in By:
        if by is not By.ALLOCATION:
            assert all((table.concurrent[s.test] == 1).all() for s in splits(table, by))


def test_a_fold_outside_holds_out_everything_beyond_its_world():
    second = list(folds_outside(TABLE, probes=False))[1]
    assert world_sizes(TABLE, second.test & (TABLE.curve == 0)) == [32]
    assert world_sizes(TABLE, second.train & (TABLE.curve == 0)) == [4, 8, 16]


def test_a_fold_inside_takes_one_inner_world_of_every_curve():
    table = table_of(sweep(worlds=WORLDS), sweep("b.x", worlds=WORLDS[:3]))
    first, second = folds_inside(table)
    assert world_sizes(table, first.test) == [16]
    assert len(set(table.curve[first.test].tolist())) == 2
    assert world_sizes(table, second.test) == [32]
