"""Scores: what is held out never leaks, the noise floor is one, public figures stand."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from srifty.allreduce.evaluation import estimators, evaluate, noise_floor
from srifty.allreduce.loading import load_samples
from srifty.allreduce.splits import By
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types
from srifty.errors import InputError

from .worlds import sweep

WORLDS = ((4, 2), (8, 4), (16, 8), (32, 16))
PUBLIC = (
    Path(os.environ.get("SRIFTY_SHARED", "../shared")) / "data" / "nccl-tests" / "allreduce.csv"
)


def table_of(**options):
    return SampleTable.of(
        [s for kind in ("a.x", "a.y", "a.z") for s in sweep(kind, worlds=WORLDS, **options)]
    )


QUICK = {name: make for name, make in estimators({}).items() if name in ("kriging", "interpolated")}


@pytest.mark.parametrize("by", list(By))
def test_held_out_times_never_reach_a_forecast(by):
    table = table_of(noise=0.1, repeats=2)
    scored = evaluate(table, by, QUICK)
    first = next(iter(scored.families()))
    rows = scored.families()[first]
    held = scored.table.take(rows)
    assert np.isfinite(scored.forecast_s["kriging"][rows]).all()
    # Every held-out time made ten times longer, one split at a time: forecasts stay the same.
    one = table.take(np.ones(len(table), dtype=np.bool_))
    key = list(zip(held.curve, held.world_size, held.size_bytes, held.allocation, strict=True))
    chosen = np.array(
        [
            k == key[0]
            for k in zip(one.curve, one.world_size, one.size_bytes, one.allocation, strict=True)
        ]
    )
    assert chosen.sum() == 1
    spoilt = replace(one, time_s=np.where(chosen, one.time_s * 10, one.time_s))
    again = evaluate(spoilt, by, QUICK)
    at = np.flatnonzero(again.table.time_s == spoilt.time_s[chosen][0])
    assert at.size
    for name in QUICK:
        assert again.forecast_s[name][at[0]] == pytest.approx(
            scored.forecast_s[name][at[0]], rel=1e-12
        )


def test_scores_by_family_and_size():
    scored = evaluate(table_of(), By.WORLD_SIZE, QUICK)
    assert scored.splits == 6
    assert {scored.pairs(rows) for rows in scored.families().values()} == {2}
    everything = np.ones(len(scored.table), dtype=np.bool_)
    for size_class in ("small", "large", "mib", "all"):
        assert scored.mape("kriging", everything, size_class) < 0.05
    assert np.isnan(scored.coverage(everything))  # nobody asked auto


def test_the_noise_floor_is_what_repeats_leave():
    quiet = noise_floor(table_of(repeats=2))
    assert quiet.mape["all"] == 0
    assert quiet.samples == len(table_of(repeats=2))
    noisy = noise_floor(table_of(noise=0.2, repeats=9))
    assert noisy.mape["all"] == pytest.approx(0.15, abs=0.03)
    alone = noise_floor(table_of())
    assert np.isnan(alone.mape["all"])
    assert alone.samples == 0


def test_no_constant_beats_the_noise_floor():
    table = table_of(noise=0.3, repeats=5)
    floor = noise_floor(table).mape["all"]
    groups = {}
    for row in range(len(table)):
        key = (table.curve[row], table.world_size[row], table.size_bytes[row])
        groups.setdefault(key, []).append(table.time_s[row])
    for factor in (0.8, 0.9, 1.0, 1.1):
        errors = [
            abs(np.median(times) * factor / time - 1) for times in groups.values() for time in times
        ]
        assert np.mean(errors) >= floor - 1e-12


def test_samples_that_allow_no_such_split():
    with pytest.raises(InputError, match="three multi-VM world sizes"):
        evaluate(SampleTable.of(sweep(worlds=((8, 2),))), By.WORLD_SIZE, QUICK)
    with pytest.raises(InputError, match="two allocations"):
        evaluate(SampleTable.of(sweep()), By.ALLOCATION, QUICK)


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public measurements are not here")
def test_public_logs_inner_worlds():
    """GCP V100, ABCI V100 and p5: the blend is no worse than interpolation, at 1 MiB and at all."""
    table = SampleTable.of(load_samples(PUBLIC))
    wanted = ("n1-standard-4+1xV100", "abci-V", "p5.48xlarge")
    makers = estimators(builtin_instance_types())
    kept = np.isin([c.instance_type for c in table.curves], wanted)[table.curve]
    chosen = {name: makers[name] for name in ("auto", "interpolated")}
    scored = evaluate(table.take(kept), By.WORLD_SIZE, chosen)
    for family, rows in scored.families().items():
        for size_class in ("mib", "all"):
            best = scored.mape("interpolated", rows, size_class)
            assert scored.mape("auto", rows, size_class) <= best + 1e-9, (family, size_class)
    assert 0.80 <= np.mean([scored.coverage(r) for r in scored.families().values()]) <= 0.99
