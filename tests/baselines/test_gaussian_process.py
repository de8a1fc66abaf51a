import numpy as np
import pytest
from scipy import integrate

from srifty.baselines.gaussian_process import GaussianProcess, expected_improvement


def test_measured_points_are_met_and_doubt_grows_away_from_them():
    inputs = np.array([[0.0], [0.3], [0.6]])
    values = np.array([1.0, 3.0, 2.0])
    process = GaussianProcess.fit(inputs, values)
    mean, std = process.predict(inputs)
    np.testing.assert_allclose(mean, values, atol=1e-4)
    assert np.all(std < 1e-3)
    _, away = process.predict(np.array([[0.45], [0.7], [1.0]]))
    assert away[1] < away[2]
    assert away[2] > 0.05


def test_a_smooth_curve_is_found_between_its_points():
    inputs = np.linspace(0, 1, 9)[:, None]
    process = GaussianProcess.fit(inputs, np.sin(4 * inputs[:, 0]))
    between = np.linspace(0.05, 0.95, 40)[:, None]
    mean, std = process.predict(between)
    truth = np.sin(4 * between[:, 0])
    np.testing.assert_allclose(mean, truth, atol=0.02)
    assert np.all(np.abs(mean - truth) < 4 * std + 0.01)


def test_a_wiggly_curve_gets_a_shorter_length_than_a_smooth_one():
    inputs = np.linspace(0, 1, 20)[:, None]
    wiggly, smooth = (GaussianProcess.fit(inputs, np.sin(rate * inputs[:, 0])) for rate in (25, 2))
    assert wiggly.length < smooth.length / 2


def test_one_point_and_equal_values_are_fine():
    for inputs, values in ([[0.5]], [2.0]), ([[0.0], [1.0]], [2.0, 2.0]):
        mean, std = GaussianProcess.fit(np.array(inputs), np.array(values)).predict(
            np.array([[0.25]])
        )
        assert mean[0] == pytest.approx(2.0)
        assert std[0] > 0


@pytest.mark.parametrize(
    ("mean", "std", "best"), [(1.0, 0.5, 1.2), (2.0, 1.0, 0.5), (0.0, 2.0, 0.0)]
)
def test_expected_improvement_is_the_integral(mean, std, best):
    def weighted(value):
        density = np.exp(-0.5 * ((value - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
        return max(best - value, 0.0) * density

    expected = integrate.quad(weighted, mean - 10 * std, best)[0]
    found = expected_improvement(np.array([mean]), np.array([std]), best)
    assert found[0] == pytest.approx(expected, rel=1e-6)


def test_a_certain_value_improves_by_its_margin():
    found = expected_improvement(np.array([1.0, 3.0]), np.zeros(2), 2.0)
    np.testing.assert_array_equal(found, [1.0, 0.0])
