"""The case study: interpolation, choices, and the two searches, on made-up curves."""

import numpy as np
import pytest
from benchmarks.paper import figure3
from benchmarks.paper.public_runs import RunSet


def row(workload, placement, batch, step_s):
    return {
        "workload": workload,
        "placement": placement,
        "local_batch": str(batch),
        "step_s": str(step_s),
        "sync_s": "1",
    }


def made(observed, predicted):
    gpus = np.array([2, 4, 8, 16])
    return figure3.Study(
        "cifar10", 64, gpus, tuple(np.array(values, dtype=float) for values in observed), predicted
    )


CURVE = made(
    [[10, 12], [30, 20], [20, 20], [40, 20]],
    {
        "srifty": np.array([10, 25, 20, 24.0]),
        "apm": np.array([10, 20, 30, 40.0]),
        "linear scaling": np.array([1, 2, 4, 8.0]),
    },
)


def test_each_placement_gets_the_batch_that_the_global_batch_leaves():
    rows = (
        row("cifar10", "1", 64, 9.0),
        row("cifar10", "1-1", 16, 1.0),
        row("cifar10", "1-1", 64, 4.0),
        row("cifar10", "2-2", 16, 1.0),
        row("cifar10", "2-2", 64, 4.0),
        row("cifar10", "4-4-4-4", 16, 1.0),  # its share, 8, was not measured
        row("other", "1-1", 16, 7.0),
    )
    runs, global_batch = figure3.interpolated(RunSet("made", rows, lambda _: [], "", ""), "cifar10")
    assert global_batch == 128
    kept = [(one["workload"], one["placement"], one["local_batch"]) for one in runs.rows]
    assert kept == [
        ("cifar10", "1", "64"),
        ("other", "1-1", "16"),
        ("cifar10", "1-1", "64"),
        ("cifar10", "2-2", "32"),
    ]
    assert float(runs.rows[-1]["step_s"]) == pytest.approx(2.0)  # half way in both logarithms
    assert runs.rows[-1]["sync_s"] == ""


def test_a_concave_prior_stops_where_throughput_first_falls():
    assert figure3.concave_stop(np.array([1, 3, 2, 9.0])) == 1
    assert figure3.concave_stop(np.array([1, 2, 3.0])) == 2


def test_choices_are_the_largest_forecasts():
    found = dict(figure3.choices(CURVE))
    assert (found["srifty"], found["apm"], found["linear scaling"]) == (1, 3, 3)
    assert found["concave prior"] == 1
    # Four probes see all four numbers of the first allocation.
    assert {found[f"bo {seed}"] for seed in range(20)} == {3}


def test_the_row_says_what_a_choice_costs():
    cells = figure3._choice_row(CURVE)
    assert cells[:3] == ("ResNet-18", "64", "16")
    assert cells[3] == "4: −17%, -70%"
    assert cells[4] == "16: −0%, +0%"


def test_the_search_sees_the_first_allocation_alone():
    curve, chosen = figure3.bayesian(CURVE, 0)
    assert chosen == 3
    assert curve == pytest.approx(CURVE.first, rel=1e-3)
