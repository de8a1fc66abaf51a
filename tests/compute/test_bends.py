from __future__ import annotations

import numpy as np
import pytest

from srifty.compute.bends import BEND_SHARE, FLOOR_SCATTER, NOISE, bent, steadied
from srifty.compute.probes import Probes

FOUR = np.array([4.0, 16.0, 64.0, 256.0])


def turns(batch, latency):
    chord = np.array(
        [
            np.interp(batch[i], batch[[i - 1, i + 1]], latency[[i - 1, i + 1]])
            for i in range(1, len(batch) - 1)
        ]
    )
    return chord / latency[1:-1] - 1.0


class TestSteadied:
    @pytest.mark.parametrize(
        "latency",
        [
            [0.10, 0.11, 0.16, 0.42],  # ever steeper
            [0.10, 0.20, 0.30, 0.40],  # ever flatter
            [0.10, 0.10, 0.10, 0.10],
        ],
    )
    def test_keeps_what_turns_one_way_only(self, latency):
        np.testing.assert_array_equal(steadied(Probes.of(FOUR, latency)), latency)

    def test_keeps_three_probes(self):
        np.testing.assert_array_equal(
            steadied(Probes.of([1, 2, 4], [1.0, 1.5, 1.4])), [1, 1.5, 1.4]
        )

    def test_straightens_a_weak_turn_against_the_trend(self):
        batch, truth = np.array([1.0, 4.0, 8.0, 32.0]), np.array([0.15, 0.18, 0.22, 0.47])
        noisy = truth * [1.05, 0.99, 1.005, 1.0]
        assert turns(batch, noisy)[0] > 0.0 > turns(batch, noisy)[1]
        steady = steadied(Probes.of(batch, noisy))
        assert turns(batch, steady)[1] == pytest.approx(0.0, abs=1e-9)
        assert np.all(np.abs(steady / noisy - 1.0) <= NOISE)

    def test_moves_a_probe_by_no_more_than_its_noise(self):
        latency = np.array([0.10, 0.14, 0.16, 0.60])
        steady = steadied(Probes.of(FOUR, latency))
        assert np.max(np.abs(steady / latency - 1.0)) == pytest.approx(NOISE)
        noise = np.array([1.0, 4.0, 1.0, 1.0])
        moved = steadied(Probes.of(FOUR, latency, relative_std=noise)) / latency - 1.0
        assert np.argmax(np.abs(moved)) == 1

    def test_averages_a_launch_floor_that_does_not_fit_what_follows(self):
        steady = steadied(Probes.of([1, 4, 32, 128], [30.0, 33.0, 53.0, 145.0]))
        np.testing.assert_allclose(steady, [np.sqrt(990), np.sqrt(990), 53.0, 145.0])

    def test_keeps_a_floor_that_fits_what_follows(self):
        latency = [0.100, 0.105, 0.130, 0.600]
        np.testing.assert_array_equal(steadied(Probes.of(FOUR, latency)), latency)

    def test_keeps_a_rise_that_is_more_than_launches_scatter(self):
        # Nearly flat by elasticity, but over five doublings.
        latency = np.array([0.1, 0.1 * np.exp(1.2 * FLOOR_SCATTER), 0.122, 0.5])
        steady = steadied(Probes.of([1, 32, 64, 256], latency))
        assert np.all(np.abs(steady / latency - 1.0) <= NOISE * 1.001)


class TestBent:
    def test_goes_a_share_of_the_way_to_the_corner(self):
        # The lines 50 and B meet at 50; they are the outer stretches of these probes.
        batch, latency = np.array([1.0, 16.0, 100.0, 400.0]), np.array([50.0, 50.0, 100.0, 400.0])
        knots, values = bent(batch, latency)
        np.testing.assert_allclose(knots, [1.0, 16.0, 50.0, 100.0, 400.0])
        chord = np.interp(50.0, batch, latency)
        assert values[2] == pytest.approx(chord + BEND_SHARE * (50.0 - chord), rel=1e-2)

    @pytest.mark.parametrize("shape", [np.log1p, lambda batch: np.sqrt(900.0 + batch**2)])
    def test_comes_nearer_to_smooth_curves_than_chords_do(self, shape):
        knots, values = bent(FOUR, shape(FOUR))
        between = np.geomspace(4.0, 64.0, 50)
        chord = np.abs(np.interp(between, FOUR, shape(FOUR)) / shape(between) - 1.0).mean()
        ours = np.abs(np.interp(between, knots, values) / shape(between) - 1.0).mean()
        assert ours < 0.6 * chord

    @pytest.mark.parametrize(
        "latency",
        [
            0.02 + 0.003 * FOUR,  # no turn
            [0.10, 0.14, 0.16, 0.60],  # turns both ways
            [0.20, 0.15, 0.10, 0.60],  # falls
        ],
    )
    def test_keeps_chords_that_do_not_bend(self, latency):
        knots, values = bent(FOUR, np.asarray(latency))
        at = np.geomspace(16.0, 256.0, 50)
        np.testing.assert_allclose(
            np.interp(at, knots, values), np.interp(at, FOUR, latency), rtol=1e-9
        )

    def test_keeps_the_last_chord(self):
        knots, _ = bent(FOUR, np.array([0.05, 0.055, 0.09, 0.27]))
        assert not np.any((knots > 64.0) & (knots < 256.0))

    def test_a_turn_within_the_noise_bends_little(self):
        batch = np.array([1.0, 16.0, 100.0, 400.0])
        deep, shallow = (
            bent(batch, np.array([50.0, 50.0, 50.0 + rise, 50.0 + 6.0 * rise]))
            for rise in (50.0, 0.5)
        )
        depths = [
            1.0 - (curve[1][2] - 50.0) / (np.interp(curve[0][2], batch, flat) - 50.0)
            for curve, flat in (
                (deep, [50.0, 50.0, 100.0, 350.0]),
                (shallow, [50.0, 50.0, 50.5, 53.0]),
            )
        ]
        assert depths[1] < 0.25 * depths[0]
