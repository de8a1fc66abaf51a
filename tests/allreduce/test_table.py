"""Samples as columns, and how repeats become points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from srifty.allreduce.table import Points, SampleTable
from srifty.core.allreduce import AllreduceSample, Collective

from .worlds import sweep

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def sample(time_s=1e-3, **facts):
    return AllreduceSample("t4.x", 2, 2, 1024, time_s, **facts)


def test_other_collectives_never_teach_an_allreduce():
    table = SampleTable.of([sample(collective=Collective.ALL_GATHER), sample(2e-3)])
    assert table.time_s.tolist() == [2e-3]


def test_of_one_measurement_in_place_and_out_of_place_only_the_latter_counts():
    table = SampleTable.of([sample(1e-3), sample(2e-3, in_place=True)])
    assert table.time_s.tolist() == [1e-3]


def test_in_place_samples_of_another_allocation_count():
    table = SampleTable.of([sample(1e-3), sample(2e-3, in_place=True, run="probe")])
    assert sorted(table.time_s.tolist()) == [1e-3, 2e-3]


def test_a_sample_a_half_life_older_than_the_newest_counts_half():
    old = sample(measured_at=NOW - timedelta(days=90))
    table = SampleTable.of([old, sample(measured_at=NOW), sample()], half_life_days=90)
    assert table.weight.tolist() == pytest.approx([0.5, 1.0, 1.0])


def test_age_is_counted_within_a_curve():
    other = sample(measured_at=NOW - timedelta(days=900), transport="efa")
    table = SampleTable.of([other, sample(measured_at=NOW)])
    assert table.weight.tolist() == [1.0, 1.0]


def test_repeats_merge_into_their_median_and_new_ones_outweigh_old_ones():
    old = [sample(4e-3, measured_at=NOW - timedelta(days=900), run=str(i)) for i in range(3)]
    new = [sample(1e-3, measured_at=NOW)]
    points = Points.of(SampleTable.of([*old, *new]), 0, between=True)
    assert np.exp(points.log_time).tolist() == pytest.approx([1e-3])
    same_age = [sample(t, run=str(i)) for i, t in enumerate((1e-3, 2e-3, 9e-3))]
    points = Points.of(SampleTable.of(same_age), 0, between=True)
    assert np.exp(points.log_time).tolist() == pytest.approx([2e-3])
    assert points.repeats.tolist() == [3.0]


def test_worlds_inside_a_vm_and_between_vms_are_kept_apart():
    table = SampleTable.of(sweep(worlds=((8, 1), (8, 8)), sizes=[1024]))
    assert Points.of(table, 0, between=False).worlds() == [(8, 1)]
    assert Points.of(table, 0, between=True).worlds() == [(8, 8)]


def test_concurrent_transfers_are_no_points_of_a_curve():
    table = SampleTable.of(sweep(sizes=[1024]) + sweep(sizes=[2048], concurrent=2))
    assert set(Points.of(table, 0, between=True).size_bytes.tolist()) == {1024.0}


def test_a_lone_hiccup_is_an_outlier_but_a_step_is_not():
    times = [1.0, 1.0, 1.02, 2.2, 1.05, 1.1, 1.1]
    smooth = [AllreduceSample("t", 2, 2, 4**i, t * 1e-4) for i, t in enumerate(times)]
    points = Points.of(SampleTable.of(smooth), 0, between=True)
    assert points.outliers().tolist() == [False, False, False, True, False, False, False]
    step = [AllreduceSample("t", 2, 2, 4**i, (1 + (i > 3)) * 1e-4) for i in range(8)]
    points = Points.of(SampleTable.of(step), 0, between=True)
    assert not points.outliers().any()


def test_taking_rows_keeps_what_the_numbers_stand_for():
    table = SampleTable.of(sweep(sizes=[4, 8]) + sweep(transport="efa", sizes=[4, 8]))
    part = table.take(table.curve == 1)
    assert len(part) == 8
    assert {part.curves[c].transport for c in part.curve} == {"efa"}
    assert np.isnan(part.questions().time_s).all()
