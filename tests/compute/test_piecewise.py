from __future__ import annotations

import numpy as np
import pytest

from srifty.compute.piecewise import FLOOR_SHARE, PiecewiseLinear


class TestPiecewiseLinear:
    def test_interpolates_and_extends_the_end_segments(self):
        curve = PiecewiseLinear.from_points([10, 20, 40], [1.0, 1.5, 3.5])
        predicted = curve.predict([5, 10, 15, 20, 30, 40, 60])
        np.testing.assert_allclose(predicted, [0.75, 1.0, 1.25, 1.5, 2.5, 3.5, 5.5])

    def test_sorts_points_and_averages_repeats(self):
        curve = PiecewiseLinear.from_points([20, 10, 20], [3.0, 1.0, 1.0])
        assert curve.knots == (10.0, 20.0)
        assert curve.latencies_s == (1.0, 2.0)

    def test_keeps_the_shape_of_the_argument(self):
        curve = PiecewiseLinear.from_points([1, 2], [1.0, 2.0])
        assert curve.predict(np.ones((3, 2))).shape == (3, 2)
        assert curve.predict(4).shape == ()

    def test_counts_segments(self):
        assert PiecewiseLinear.from_points([8], [1.0]).segments == 1
        assert PiecewiseLinear.from_points([1, 2, 3], [1.0, 2.0, 4.0]).segments == 2

    def test_never_falls_below_its_floor_at_small_batches(self):
        # Steeper than proportional: the plain extension would be negative below batch 9.
        curve = PiecewiseLinear.from_points([10, 20], [1.0, 11.0])
        low = curve.predict([1e-9, 1, 5])
        assert np.all(low >= FLOOR_SHARE)
        assert np.all(np.diff(low) > 0)

    def test_does_not_extend_a_fall(self):
        curve = PiecewiseLinear.from_points([10, 20], [2.0, 1.0])
        np.testing.assert_allclose(curve.predict([1, 1000]), [2.0, 1.0])

    def test_scaled_multiplies_everywhere(self):
        curve = PiecewiseLinear.from_points([4, 16, 64, 256], [0.05, 0.05, 0.06, 0.21])
        sizes = np.geomspace(1.0, 2000.0, 400)
        np.testing.assert_allclose(curve.scaled(0.25).predict(sizes), 0.25 * curve.predict(sizes))
        with pytest.raises(ValueError, match="factor must be positive"):
            curve.scaled(0.0)

    @pytest.mark.parametrize(
        ("knots", "latencies_s", "left", "right", "message"),
        [
            ((2.0, 1.0), (1.0, 1.0), 0.0, 0.0, "ascend"),
            ((1.0, 2.0), (1.0, 1.0), 1.0, 0.0, "left_slope_s"),
            ((1.0, 2.0), (1.0, 1.0), 0.0, -1.0, "right_slope_s"),
            ((1.0, 2.0), (1.0, 0.0), 0.0, 0.0, "latencies_s must be positive"),
        ],
    )
    def test_refuses_a_curve_that_is_none(self, knots, latencies_s, left, right, message):
        with pytest.raises(ValueError, match=message):
            PiecewiseLinear(knots, latencies_s, left, right)
