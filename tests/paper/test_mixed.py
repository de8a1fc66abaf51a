"""Mixed clusters: what is learned from, the simple model by hand, the drift of a made-up error."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks.paper.mixed import Model, Run, drift, runs_of

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", REPOSITORY.parent / "shared" / "data"))

V, P = "V100", "P100"


def made_runs():
    alone = [
        Run(f"{gpu}{batch}", "bert-glue", (gpu,), (batch,), (1,), batch * per_s)
        for gpu, per_s in ((V, 0.01), (P, 0.02))
        for batch in (8, 64)
    ]
    pairs = [
        Run("vv", "bert-glue", (V, V), (64, 64), (1, 1), 0.64 + 3.0),
        Run("pp", "bert-glue", (P, P), (64, 64), (1, 1), 1.28 + 4.0),
    ]
    mixed = Run("vp", "bert-glue", (V, V, P), (64, 64, 32), (1, 1, 2), 5.0)
    unknown = Run("xx", "transformer", (V, P), (64, 64), (1, 1), 1.0)
    return [*alone, *pairs, mixed, unknown]


def test_no_mixed_run_is_learned_from():
    model = Model(made_runs())
    assert [run.name for run in model.mixed] == ["vp"]  # a workload without one-worker runs: none
    assert {row.gpu for row in model.learned} == {V, P}
    assert all(row.world_size == 2 for row in model.learned)


def test_passes_are_learned_from_as_passes():
    run = Run("pppp", "bert-glue", (P,) * 4, (64,) * 4, (2,) * 4, 1.28 + 4.0, per_vm=2)
    model = Model([*made_runs(), run])
    row = model.learned[-1]
    assert (row.gpus_used, row.local_batch, row.accumulation) == ((2, 2), 64, 2)
    assert row.step_s == pytest.approx(1.28 + 4.0)
    assert len(model.forecast([run])) == 1


def test_the_simple_model_by_hand():
    model = Model(made_runs())
    (run,) = model.mixed
    assert model.compute_s(run) == pytest.approx(0.64, rel=0.01)  # 32 on a P100 take as long
    assert model.constant_s("bert-glue") == pytest.approx(3.5, rel=0.01)


def test_a_forecast_lies_between_what_the_links_alone_and_their_sum_say():
    model = Model(made_runs())
    found = model.forecast(model.mixed)
    assert found.linear_s[0] == pytest.approx(0.64, rel=0.01)
    assert 3.0 < found.mean_s[0] < 9.0
    assert found.p10_s[0] < found.mean_s[0] < found.p90_s[0]


def test_drift_is_the_slope_and_its_interval():
    workers = [2, 4, 8, 16]
    slope, low, high = drift(0.1 * np.log(workers) + 0.3, workers)
    assert (slope, low, high) == pytest.approx((0.1, 0.1, 0.1))
    bent = 0.1 * np.log(workers) + np.array([0.1, -0.1, 0.1, -0.1])
    slope, low, high = drift(bent, workers)
    assert low < slope < high
    assert math.isfinite(low)


@pytest.mark.skipif(
    not (DATA / "virtualflow_het").is_dir(),
    reason=f"there are no runs in {DATA}; SRIFTY_PUBLIC_DATA names their folder",
)
def test_public_mixed_runs():
    model = Model(runs_of(DATA))
    assert len(model.mixed) == 8
    assert {run.workers for run in model.mixed} == {4, 6, 10, 18}
    assert all(row.world_size >= 2 for row in model.learned)
    assert len(model.learned) == len(model.homogeneous) == 23
