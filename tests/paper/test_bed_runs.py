"""Runs of the bed: void ones by the testbed's rules, and files that interrupted runs go on from."""

import pytest
from benchmarks.paper.bed_runs import (
    Measurement,
    Run,
    append_run,
    drop_void,
    measurements,
    read_runs,
)


def run(seconds, *, repeat=0, config="2g3@64", waited=0.0, own=0.5, failure=""):
    times = (seconds,) * 4 if seconds else ()
    return Run(
        "case 4", "dlrm", config, repeat, times, (0.0, waited), own, own + 0.1, 2, 4.0, failure
    )


def test_repeats_together_by_hand():
    found = Measurement.of([run(1.0), run(1.02, repeat=1), run(1.01, repeat=2)])
    assert found.mean_s == pytest.approx(1.01)
    assert found.noise == pytest.approx(0.02 / 1.01)
    assert found.repeats == 3
    assert not found.void


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (run(1.06, repeat=1), "apart by"),
        (run(1.0, repeat=1, waited=0.5), "waited for a core"),
        (run(1.0, repeat=1, own=1.6), "kept 1.60 of 2 cores busy"),
        (run(0.0, repeat=1, failure="a rank died"), "failed: a rank died"),
    ],
)
def test_each_rule_makes_it_void(second, why):
    assert why in Measurement.of([run(1.0), second]).void


def test_runs_survive_the_file_and_void_ones_are_dropped(tmp_path):
    path = tmp_path / "runs.jsonl"
    assert read_runs(path) == ()
    good = [run(1.0), run(1.0, repeat=1)]
    bad = [run(1.0, config="4g3@32"), run(1.2, config="4g3@32", repeat=1)]
    for one in (*good, *bad):
        append_run(path, one)
    assert read_runs(path) == (*good, *bad)
    assert set(measurements(read_runs(path), "case 4")) == {"2g3@64", "4g3@32"}
    assert not measurements(read_runs(path), "case 5")
    drop_void(path)
    assert read_runs(path) == tuple(good)
