from __future__ import annotations

import numpy as np
import pytest

from srifty.compute.knee import knee
from srifty.compute.piecewise import PiecewiseLinear


class TestKnee:
    def test_of_a_line_through_the_origin_is_the_smallest_batch(self):
        assert knee(PiecewiseLinear.from_points([2, 64], [0.02, 0.64])) == 2.0

    def test_of_a_plateau_is_the_share_of_the_largest_batch(self):
        curve = PiecewiseLinear.from_points([2, 64], [0.1, 0.1])
        assert knee(curve) == pytest.approx(32.0)
        assert knee(curve, share=1.0) == pytest.approx(64.0)

    def test_of_a_long_line_is_where_constant_and_proportional_part_are_equal(self):
        batch = np.array([1.0, 1e6])
        assert knee(PiecewiseLinear.from_points(batch, 50.0 + batch)) == pytest.approx(50, rel=1e-3)

    def test_meets_its_definition(self):
        curve = PiecewiseLinear.from_points([4, 100, 1024], [0.05, 0.05, 0.974])
        sizes = np.geomspace(4.0, 1024.0, 400)
        throughput = sizes / curve.predict(sizes)
        best = max(k / t for k, t in zip(curve.knots, curve.latencies_s, strict=True))
        at = knee(curve, share=0.7)
        assert at / curve.predict(at) == pytest.approx(0.7 * best)
        assert np.all(throughput[sizes < at] < 0.7 * best)

    def test_of_a_single_knot_is_that_knot(self):
        assert knee(PiecewiseLinear.from_points([32], [1.0])) == 32.0

    @pytest.mark.parametrize("share", [0.0, -1.0, 1.1])
    def test_refuses_a_share_that_is_none(self, share):
        with pytest.raises(ValueError, match="share must be in"):
            knee(PiecewiseLinear.from_points([32], [1.0]), share=share)
