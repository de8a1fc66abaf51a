import numpy as np
import pytest

from srifty.calibration import IterationScores


def test_scores_of_known_errors():
    measured_s = np.ones(4)
    mean_s = np.array([0.9, 0.8, 1.1, 1.0])
    scores = IterationScores.of(measured_s, mean_s, np.array([1.0, 0.9, 1.3, 1.2]))
    assert scores.rows == 4
    assert scores.mape == pytest.approx(0.1)
    assert scores.median == pytest.approx(0.1)
    assert scores.underestimated_share == 0.5
    assert scores.underestimation_p90 == pytest.approx(0.19)
    assert scores.p90_coverage == 0.75


def test_without_underestimates_there_is_no_underestimation():
    assert IterationScores.of(np.ones(2), np.full(2, 2.0), np.full(2, 2.0)).underestimation_p90 == 0
