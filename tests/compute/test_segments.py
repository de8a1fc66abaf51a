from __future__ import annotations

import numpy as np
import pytest

from srifty.compute.probes import Probes
from srifty.compute.segments import (
    EXACT_RMS,
    FEW_SEGMENTS,
    FOLLOW_RMS,
    exact_segments,
    few_segments,
    largest_fall,
    level_falls,
    many_segments,
)

SIX = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


class TestExactSegments:
    def test_finds_a_line(self):
        knots, values = exact_segments(Probes.of(SIX, 2.0 + SIX))
        np.testing.assert_allclose(knots, [1.0, 32.0])
        np.testing.assert_allclose(values, [3.0, 34.0])

    def test_finds_two_lines_and_where_they_meet(self):
        knots, values = exact_segments(Probes.of(SIX, np.maximum(6.0, SIX)))
        np.testing.assert_allclose(knots, [1.0, 6.0, 32.0])
        np.testing.assert_allclose(values, [6.0, 6.0, 32.0])

    def test_finds_nothing_in_noise_or_in_too_few_probes(self):
        assert exact_segments(Probes.of(SIX, (2.0 + SIX) * [1, 1.1, 0.9, 1, 1.1, 1])) is None
        assert exact_segments(Probes.of(SIX[1:], np.maximum(6.0, SIX[1:]))) is None


class TestFewSegments:
    def test_keeps_a_curve_that_is_short_enough(self):
        knots, values = few_segments(SIX[[0, 2, 3, 5]], np.array([1.0, 1.1, 2.0, 9.0]))
        np.testing.assert_allclose(knots, SIX[[0, 2, 3, 5]])
        np.testing.assert_allclose(values, [1.0, 1.1, 2.0, 9.0])

    def test_drops_a_knot_that_does_not_bend(self):
        knots, _ = few_segments(SIX, 2.0 + SIX)
        np.testing.assert_allclose(knots, [1.0, 32.0])

    def test_follows_a_longer_curve_as_well_as_it_can(self):
        curve = np.sqrt(30.0 + SIX**2)
        knots, values = few_segments(SIX, curve)
        assert len(knots) == FEW_SEGMENTS + 1
        at = np.geomspace(1.0, 32.0, 99)
        error = np.interp(at, knots, values) / np.interp(at, SIX, curve) - 1.0
        assert np.sqrt(np.mean(error**2)) < 8 * FOLLOW_RMS


class TestManySegments:
    def test_takes_as_many_segments_as_the_probes_support(self):
        batch = np.geomspace(1.0, 512.0, 19)
        noise = 1.0 + 0.02 * np.random.default_rng(0).standard_normal((15, 19))

        def segments(curve):
            noisy = [
                many_segments(Probes.of(batch, row * curve), batch, row * curve) for row in noise
            ]
            return np.median([len(knots) - 1 for knots, _ in noisy])

        assert segments(3.0 + batch) == 1
        assert segments(np.maximum(40.0, batch)) in (2, 3)

    def test_stays_within_the_clock(self):
        batch = np.geomspace(1.0, 512.0, 18)
        knots, values = many_segments(Probes.of(batch, batch + 9.0), batch, batch + 9.0)
        np.testing.assert_allclose(values, knots + 9.0, rtol=EXACT_RMS)


class TestFalls:
    def test_largest_fall_looks_back_at_the_peak(self):
        assert largest_fall(np.array([1.0, 2.0, 1.9, 1.5, 3.0])) == pytest.approx(0.25)
        assert largest_fall(np.array([1.0, 1.0, 2.0])) == 0.0

    def test_level_falls_averages_what_falls(self):
        levelled = level_falls(np.array([1.0, 2.02, 1.98, 3.0]))
        np.testing.assert_allclose(levelled, [1.0, 2.0, 2.0, 3.0], rtol=1e-3)
        assert levelled[1] == levelled[2]
