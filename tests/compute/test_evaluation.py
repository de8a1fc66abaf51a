from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.compute.evaluation import CurveScore, choose_probes, evaluate_curve, summarise
from srifty.compute.fit import fit_latency

POWERS = 2.0 ** np.arange(8)


class TestChooseProbes:
    def test_takes_the_sizes_nearest_to_a_geometric_grid(self):
        assert choose_probes([1, 2, 4, 8, 16, 32, 64], 4) == (1.0, 4.0, 16.0, 64.0)
        # The grid is 1, 3.17, 10.1, 32: nearest in log space are 4 and 8.
        assert choose_probes([1, 2, 4, 8, 16, 32], 4) == (1.0, 4.0, 8.0, 32.0)

    def test_gives_a_grid_point_the_next_free_size(self):
        # All grid points lie next to 1000, which is taken once.
        assert choose_probes([1, 900, 1000, 1e6], 4) == (1.0, 900.0, 1000.0, 1e6)

    def test_can_take_all_or_only_the_ends(self):
        assert choose_probes(POWERS, 8) == tuple(POWERS)
        assert choose_probes(POWERS, 2) == (1.0, 128.0)

    @given(st.sets(st.integers(min_value=1, max_value=10**6), min_size=2, max_size=30), st.data())
    def test_chooses_distinct_sizes_with_both_ends(self, sizes, data):
        count = data.draw(st.integers(min_value=2, max_value=len(sizes)))
        chosen = choose_probes(list(sizes), count)
        assert len(set(chosen)) == count
        assert list(chosen) == sorted(chosen)
        assert set(chosen) <= {float(size) for size in sizes}
        assert (chosen[0], chosen[-1]) == (min(sizes), max(sizes))

    @pytest.mark.parametrize("count", [0, 1, 9])
    def test_refuses_a_count_out_of_range(self, count):
        with pytest.raises(ValueError, match="count must be between 2 and the 8"):
            choose_probes(POWERS, count)

    @pytest.mark.parametrize("batches", [[], [0, 1], [1, np.nan]])
    def test_refuses_bad_sizes(self, batches):
        with pytest.raises(ValueError, match="batches must be positive and finite"):
            choose_probes(batches, 2)


class TestEvaluateCurve:
    def test_a_line_is_predicted_by_all_three(self):
        score = evaluate_curve(POWERS, 3.0 + 0.5 * POWERS)
        assert score.evaluated == 4
        assert score.model_percent == pytest.approx(0.0, abs=1e-6)
        assert score.line_percent == pytest.approx(0.0, abs=1e-6)
        assert score.interpolation_percent == pytest.approx(0.0, abs=1e-6)

    def test_errors_are_those_of_the_held_out_sizes(self):
        latency = np.maximum(10.0, POWERS)
        score = evaluate_curve(POWERS, latency)
        held_out = ~np.isin(POWERS, score.probes)
        probed = ~held_out
        curve = fit_latency(POWERS[probed], latency[probed])
        error = np.abs(curve.predict(POWERS[held_out]) / latency[held_out] - 1.0)
        assert score.model_percent == pytest.approx(100 * error.mean())
        chord = np.interp(POWERS[held_out], POWERS[probed], latency[probed])
        expected = 100 * np.abs(chord / latency[held_out] - 1.0).mean()
        assert score.interpolation_percent == pytest.approx(expected)

    def test_interpolation_has_no_error_at_the_probes(self):
        latency = np.maximum(10.0, POWERS)
        held_out = evaluate_curve(POWERS, latency)
        everywhere = evaluate_curve(POWERS, latency, errors="all")
        assert everywhere.evaluated == 8
        assert everywhere.interpolation_percent == pytest.approx(held_out.interpolation_percent / 2)

    def test_does_not_depend_on_the_order(self):
        latency = np.maximum(10.0, POWERS)
        assert evaluate_curve(POWERS[::-1], latency[::-1]).model_percent == pytest.approx(
            evaluate_curve(POWERS, latency).model_percent
        )

    def test_beats_interpolation_on_launch_floors(self):
        # Curves t = (F^4 + B^4)^(1/4) + offset for floors all over the range.
        scores = [
            evaluate_curve(POWERS, (floor**4 + POWERS**4) ** 0.25 + share * floor)
            for floor in np.geomspace(2, 80, 15)
            for share in (0.0, 0.25)
        ]
        summary = summarise(scores)
        assert summary.model_mean_percent < 0.85 * summary.interpolation_mean_percent
        assert summary.wins > 2 * summary.losses

    def test_refuses_what_it_cannot_judge(self):
        with pytest.raises(ValueError, match="probes=8 leaves no batch size"):
            evaluate_curve(POWERS, POWERS, probes=8)
        with pytest.raises(ValueError, match="distinct"):
            evaluate_curve([1, 1, 2, 4, 8], np.ones(5))
        with pytest.raises(ValueError, match="match latencies_s"):
            evaluate_curve(POWERS, POWERS[:-1])


class TestSummarise:
    def test_counts_every_curve_once(self):
        scores = [
            CurveScore((1.0, 2.0), 3, model, line, chord)
            for model, line, chord in ((1.0, 4.0, 2.0), (3.0, 5.0, 2.5), (5.0, 12.0, 5.0))
        ]
        summary = summarise(scores)
        assert summary.curves == 3
        assert (summary.model_mean_percent, summary.model_median_percent) == (3.0, 3.0)
        assert (summary.line_mean_percent, summary.line_median_percent) == (7.0, 5.0)
        assert summary.interpolation_mean_percent == pytest.approx(9.5 / 3)
        assert summary.interpolation_median_percent == 2.5
        assert (summary.wins, summary.losses) == (1, 1)
        assert summary.worst_loss_points == 0.5

    def test_refuses_nothing(self):
        with pytest.raises(ValueError, match="at least one CurveScore"):
            summarise([])
