from dataclasses import replace

import numpy as np
import pytest

from srifty.baselines import PREDICTORS, compare
from srifty.calibration import HoldOut, folds
from tests.calibration.synthetic import KIND, PRIOR, observed, workloads

MOST = 4


@pytest.fixture(scope="module")
def rows():
    return observed(noise=0.03)


def compared(rows, hold_out, progress=None):
    parts = folds(rows, hold_out, train_max_vms=MOST)
    return compare(parts, {KIND.name: KIND}, workloads(), PRIOR, progress)


@pytest.mark.parametrize("hold_out", list(HoldOut))
def test_every_predictor_forecasts_every_held_row(rows, hold_out):
    calls = []
    result = compared(rows, hold_out, lambda done, total: calls.append((done, total)))
    expected = [r for r in rows if r.vms > (MOST if hold_out is HoldOut.NODES else 1)]
    assert sorted(map(str, result.observations)) == sorted(map(str, expected))
    for name in PREDICTORS:
        assert len(result.mean_s[name]) == len(result.p90_s[name]) == len(expected)
        assert np.all(result.p90_s[name] >= result.mean_s[name])
    assert calls[-1][0] == calls[-1][1] == len(result.calibrations)


def test_the_calibrated_simulator_beats_the_baselines(rows):
    result = compared(rows, HoldOut.NODES)
    measured_s = np.array([row.step_s for row in result.observations])
    error = {name: np.abs(result.mean_s[name] / measured_s - 1).mean() for name in PREDICTORS}
    assert error["srifty"] < 0.06 < error["apm"] < error["compute-only"]


@pytest.mark.parametrize("hold_out", [HoldOut.WORKLOAD, HoldOut.NODES])
def test_held_times_do_not_leak_into_forecasts(rows, hold_out):
    """Each fold alone: with other held-out times, its forecasts are the same to the last bit."""
    for part in folds(rows, hold_out, train_max_vms=MOST):
        changed = replace(
            part, held=tuple(replace(row, step_s=row.step_s * 7.0) for row in part.held)
        )
        one, other = (
            compare([which], {KIND.name: KIND}, workloads(), PRIOR) for which in (part, changed)
        )
        for name in PREDICTORS:
            np.testing.assert_array_equal(one.mean_s[name], other.mean_s[name])
            np.testing.assert_array_equal(one.p90_s[name], other.p90_s[name])
        learned = tuple(replace(row, step_s=row.step_s * 1.5) for row in part.learned)
        moved = compare([replace(part, learned=learned)], {KIND.name: KIND}, workloads(), PRIOR)
        assert np.any(moved.mean_s["srifty"] != one.mean_s["srifty"])
