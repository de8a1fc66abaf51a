from __future__ import annotations

import numpy as np
import pytest

from srifty.compute.probes import Probes


class TestProbes:
    def test_sorts_and_averages_repeats(self):
        probes = Probes.of([20, 10, 20], [3.0, 1.0, 1.0])
        np.testing.assert_allclose(probes.batch, [10.0, 20.0])
        np.testing.assert_allclose(probes.latency_s, [1.0, 2.0])
        assert len(probes) == 2

    def test_a_mean_of_repeats_is_less_noisy(self):
        noise = Probes.of([10, 20, 20, 20, 20], np.ones(5)).noise
        assert noise[0] / noise[1] == pytest.approx(2.0)
        assert np.mean(noise**2) == pytest.approx(1.0)

    def test_only_ratios_of_the_spread_count(self):
        small, large = (
            Probes.of([1, 2, 3], np.ones(3), relative_std=scale * np.array([1.0, 2.0, 4.0]))
            for scale in (0.01, 0.1)
        )
        np.testing.assert_allclose(small.noise, large.noise)

    def test_without_leaves_one_out(self):
        kept = Probes.of([1, 2, 4], [1.0, 2.0, 3.0]).without(1)
        np.testing.assert_allclose(kept.batch, [1.0, 4.0])
        np.testing.assert_allclose(kept.latency_s, [1.0, 3.0])
        np.testing.assert_allclose(kept.noise, 1.0)
