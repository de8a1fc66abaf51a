from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.compute.fit import RESIDUAL_FLOOR, RESIDUAL_UNKNOWN, fit_latency, residual_fraction
from srifty.compute.piecewise import SINGLE_PROBE_CONSTANT_SHARE

FOUR = np.array([4.0, 16.0, 64.0, 256.0])
TWENTY = np.unique(np.round(np.geomspace(4, 1024, 20)))
DENSE = np.geomspace(1.0, 2000.0, 400)

probes = st.lists(
    st.tuples(st.integers(min_value=1, max_value=4096), st.floats(min_value=1e-5, max_value=1e3)),
    min_size=1,
    max_size=12,
)


def hinge(batch, floor_s=0.05, slope_s=0.001, bend=100.0):
    return floor_s + slope_s * np.maximum(np.asarray(batch, dtype=float) - bend, 0.0)


class TestFitLatency:
    @pytest.mark.parametrize("batch", [FOUR[:2], FOUR[:3], FOUR, TWENTY])
    def test_recovers_a_line_everywhere(self, batch):
        curve = fit_latency(batch, 0.02 + 0.003 * batch)
        assert curve.segments == 1
        np.testing.assert_allclose(curve.predict(DENSE), 0.02 + 0.003 * DENSE, rtol=1e-9)

    def test_recovers_a_two_segment_curve_from_many_probes(self):
        curve = fit_latency(TWENTY, hinge(TWENTY))
        assert curve.segments == 2
        assert curve.knots[1] == pytest.approx(100.0)
        np.testing.assert_allclose(curve.predict(DENSE), hinge(DENSE), rtol=1e-9)

    def test_recovers_a_concave_two_segment_curve(self):
        truth = 0.01 + 0.002 * np.minimum(TWENTY, 60.0) + 0.0005 * np.maximum(TWENTY - 60.0, 0.0)
        curve = fit_latency(TWENTY, truth)
        assert curve.knots[1] == pytest.approx(60.0)
        np.testing.assert_allclose(curve.predict(TWENTY), truth, rtol=1e-9)

    def test_recovers_a_plateau(self):
        curve = fit_latency(FOUR, np.full(4, 0.01))
        np.testing.assert_allclose(curve.predict(DENSE), 0.01, rtol=1e-9)

    def test_bends_below_the_chord_of_a_launch_floor(self):
        # Floor and proportional part overlap: between the probes the truth is below the chord.
        truth = lambda batch: (0.05**4 + (0.001 * batch) ** 4) ** 0.25  # noqa: E731
        curve = fit_latency(FOUR, truth(FOUR))
        between = np.geomspace(4, 256, 60)
        chord = np.interp(between, FOUR, truth(FOUR))
        ours = np.abs(curve.predict(between) / truth(between) - 1.0).mean()
        assert ours < 0.8 * np.abs(chord / truth(between) - 1.0).mean()
        assert curve.segments <= 3

    def test_smooths_noise_of_many_probes(self):
        noise = 1.0 + 0.05 * np.random.default_rng(3).standard_normal((20, len(TWENTY)))
        curves = [fit_latency(TWENTY, hinge(TWENTY) * row) for row in noise]
        errors = [np.abs(curve.predict(TWENTY) / hinge(TWENTY) - 1.0).mean() for curve in curves]
        assert np.mean(errors) < 0.6 * np.abs(noise - 1.0).mean()
        assert np.median([curve.segments for curve in curves]) <= 3

    def test_one_probe_scales_all_but_the_constant_share(self):
        curve = fit_latency([32], [1.0])
        share = SINGLE_PROBE_CONSTANT_SHARE
        np.testing.assert_allclose(
            curve.predict([16, 32, 64]), [share + (1 - share) / 2, 1.0, share + (1 - share) * 2]
        )

    def test_two_probes_steeper_than_proportional_stay_positive(self):
        curve = fit_latency([8, 16], [1.0, 4.0])
        np.testing.assert_allclose(curve.predict([8, 16, 32]), [1.0, 4.0, 10.0])
        assert np.all(curve.predict([1, 2, 4]) > 0)

    def test_two_probes_that_fall_within_noise_are_level(self):
        curve = fit_latency([8, 16], [1.02, 1.0])
        np.testing.assert_allclose(curve.predict([1, 8, 16, 64]), 1.01, rtol=1e-3)

    def test_a_small_fall_is_levelled_and_a_large_one_kept(self):
        small = fit_latency(FOUR, [0.100, 0.098, 0.12, 0.4]).predict(np.geomspace(1, 500, 99))
        assert np.all(np.diff(small) >= -1e-12)
        large = fit_latency(FOUR, [0.100, 0.060, 0.12, 0.4])
        assert large.predict(16) < 0.9 * large.predict(4)

    def test_is_linear_beyond_the_probes(self):
        curve = fit_latency(FOUR, [0.05, 0.055, 0.09, 0.27])
        far = curve.predict([512.0, 1024.0, 1536.0])
        assert far[1] - far[0] == pytest.approx(far[2] - far[1])
        assert far[0] > 0.45
        assert 0.03 < curve.predict(1) <= 0.055

    def test_does_not_depend_on_units_or_order(self):
        latency = np.array([0.05, 0.055, 0.09, 0.27])
        curve = fit_latency(FOUR, latency)
        other = fit_latency(FOUR[::-1] * 8, latency[::-1] * 1000)
        np.testing.assert_allclose(other.predict(DENSE * 8), 1000 * curve.predict(DENSE), rtol=1e-6)

    def test_repeated_probes_are_averaged(self):
        latency = np.array([0.05, 0.055, 0.09, 0.27])
        repeated = fit_latency(np.tile(FOUR, 2), np.concatenate((latency * 1.02, latency * 0.98)))
        np.testing.assert_allclose(
            repeated.predict(DENSE), fit_latency(FOUR, latency).predict(DENSE), rtol=1e-9
        )

    def test_trusts_a_precise_probe_more(self):
        batch = np.array([8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0])
        latency = 0.02 + 0.003 * batch
        latency[4] *= 1.3
        std = np.full(8, 0.01)
        std[4] = 0.3
        told, untold = fit_latency(batch, latency, relative_std=std), fit_latency(batch, latency)
        truth = 0.02 + 0.003 * 128
        assert abs(told.predict(128) - truth) < abs(untold.predict(128) - truth)

    @pytest.mark.parametrize(
        ("batches", "latencies_s", "message"),
        [
            ([], [], "not empty"),
            ([1, 2], [1.0], "one length"),
            ([[1, 2]], [[1.0, 2.0]], "one-dimensional"),
            ([0, 2], [1.0, 2.0], r"batches must be positive and finite, got 0\.0"),
            ([1, 2], [1.0, -2.0], r"latencies_s must be positive and finite, got -2\.0"),
            ([1, 2], [1.0, np.nan], "latencies_s must be positive and finite, got nan"),
            ([1, np.inf], [1.0, 2.0], "batches must be positive and finite, got inf"),
        ],
    )
    def test_refuses_bad_probes(self, batches, latencies_s, message):
        with pytest.raises(ValueError, match=message):
            fit_latency(batches, latencies_s)

    @pytest.mark.parametrize("std", [[0.1], [0.1, 0.0], [0.1, np.nan]])
    def test_refuses_a_bad_spread(self, std):
        with pytest.raises(ValueError, match="relative_std must hold"):
            fit_latency([1, 2], [1.0, 2.0], relative_std=std)

    @settings(deadline=None, max_examples=60)
    @given(probes)
    def test_is_positive_continuous_and_short(self, points):
        batch, latency = np.array(points, dtype=float).T
        curve = fit_latency(batch, latency)
        assert np.all(curve.predict(np.geomspace(1e-3, 1e6, 300)) > 0)
        assert curve.segments <= 3 or len(points) >= 9
        for knot in curve.knots:
            around = curve.predict([knot * (1 - 1e-12), knot, knot * (1 + 1e-12)])
            np.testing.assert_allclose(around, around[1], atol=1e-6 * latency.max())

    @settings(deadline=None, max_examples=60)
    @given(probes)
    def test_rising_probes_give_a_rising_curve(self, points):
        batch, latency = np.array(points, dtype=float).T
        rising = fit_latency(np.unique(batch), np.sort(latency)[: len(np.unique(batch))])
        predicted = rising.predict(np.geomspace(1e-3, 1e6, 300))
        assert np.all(np.diff(predicted) >= -1e-9 * predicted[1:])


class TestResidualFraction:
    @pytest.mark.parametrize("count", [1, 2])
    def test_says_what_is_usual_where_probes_are_too_few(self, count):
        assert residual_fraction(FOUR[:count], FOUR[:count]) == RESIDUAL_UNKNOWN[count]

    def test_is_the_floor_for_a_line(self):
        assert residual_fraction(FOUR, 0.02 + 0.003 * FOUR) == RESIDUAL_FLOOR

    def test_grows_with_the_noise(self):
        rng = np.random.default_rng(1)
        unit = rng.standard_normal((12, len(TWENTY)))
        few, many = (
            np.mean([residual_fraction(TWENTY, hinge(TWENTY) * (1 + std * row)) for row in unit])
            for std in (0.03, 0.09)
        )
        assert few < many
        assert 0.7 * 0.09 < many < 1.7 * 0.09
