"""Kriging: exact laws are recovered, hiccups ignored, doubt grows with the distance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.allreduce.kriging import KrigingCurve
from srifty.allreduce.table import Points, SampleTable

from .worlds import SIZES, ring_time_s, sweep

ASKED = np.array([8.0, 1024.0, 100_000.0, 5e6, 200e6])


def predict(curve, world_size, vms, sizes):
    """One world, several sizes."""
    n, v = np.full(len(sizes), float(world_size)), np.full(len(sizes), float(vms))
    return curve.predict(n, v, sizes)


def points_of(samples):
    return Points.of(SampleTable.of(samples), 0, between=True)


def test_a_smooth_law_is_forecast_inside_and_outside():
    curve = KrigingCurve(points_of(sweep()))
    for n, vms, within in ((16, 4, 0.03), (24, 6, 0.03), (128, 32, 0.05)):
        log_time, _ = predict(curve, n, vms, ASKED)
        assert np.exp(log_time) == pytest.approx(ring_time_s(n, vms, ASKED), rel=within)


def test_a_single_hiccup_does_not_bend_the_curve():
    samples = sweep(worlds=((16, 2),), sizes=[8 * 2**i for i in range(28)], noise=0.02)
    at = next(i for i, s in enumerate(samples) if s.size_bytes == 512)
    bent = [*samples]
    bent[at] = type(bent[at])(
        **{f: getattr(bent[at], f) for f in bent[at].__slots__} | {"time_s": bent[at].time_s * 2.2}
    )
    log_time, _ = predict(KrigingCurve(points_of(bent)), 16, 2, np.array([512.0]))
    assert np.exp(log_time[0]) == pytest.approx(ring_time_s(16, 2, 512), rel=0.08)


def test_three_probes_of_a_new_world_pull_its_whole_curve():
    def slower(n, vms, size):
        return ring_time_s(n, vms, size) * (1.6 if n == 128 else 1.0)

    probes = sweep(worlds=((128, 32),), sizes=[4096, 2**20, 2**28], law=slower)
    blind = predict(KrigingCurve(points_of(sweep())), 128, 32, ASKED)[0]
    probed = predict(KrigingCurve(points_of(sweep() + probes)), 128, 32, ASKED)[0]
    truth = slower(128, 32, ASKED)
    assert np.mean(np.abs(np.exp(probed) / truth - 1)) < 0.15
    assert np.mean(np.abs(np.exp(blind) / truth - 1)) > 0.3


def test_doubt_grows_with_the_distance_from_what_was_measured():
    curve = KrigingCurve(points_of(sweep()))
    size = np.array([1e6])
    doubts = [predict(curve, n, n // 4, size)[1][0] for n in (64, 128, 256, 1024)]
    assert doubts == sorted(doubts)
    assert doubts[-1] > 2 * doubts[0]


def test_rough_stretches_are_doubted_more_than_smooth_ones():
    rng = np.random.default_rng(1)

    def rough(n, vms, size):
        return ring_time_s(n, vms, size) * np.exp(rng.normal(0, 0.5 if size < 1e4 else 0.01))

    curve = KrigingCurve(points_of(sweep(law=rough, sizes=[4 * 2**i for i in range(27)])))
    _, log_sd = predict(curve, 24, 6, np.array([256.0, 64e6]))
    assert log_sd[0] > 2 * log_sd[1]


def test_one_point_is_enough_to_answer():
    curve = KrigingCurve(points_of(sweep(worlds=((8, 2),), sizes=[2**20])))
    log_time, log_sd = predict(curve, 8, 2, np.array([2.0**20]))
    assert np.exp(log_time[0]) == pytest.approx(ring_time_s(8, 2, 2**20), rel=0.05)
    assert log_sd[0] > 0


@given(
    seed=st.integers(0, 2**32 - 1),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
    asked=st.tuples(st.sampled_from([2, 4, 64, 4096]), st.integers(0, 33)),
)
def test_answers_are_finite_and_positive_whatever_was_measured(seed, noise, asked):
    rng = np.random.default_rng(seed)
    vms_and_gpus = rng.integers((2, 1), (60, 9), (3, 2)).tolist()
    worlds = [(v * g, v) for v, g in vms_and_gpus]
    sizes = sorted({int(size) for size in rng.choice(SIZES, 4)})
    curve = KrigingCurve(points_of(sweep(worlds=worlds, sizes=sizes, noise=noise, seed=seed)))
    vms, power = asked
    log_time, log_sd = predict(curve, vms * 2, vms, np.array([2.0**power]))
    assert np.isfinite(log_time).all()
    assert (log_sd > 0).all()
    assert np.exp(log_time[0]) > 0


def test_hundreds_of_sizes_are_thinned_without_losing_the_curve():
    sizes = list(range(100_000, 100_000_000, 150_000))
    curve = KrigingCurve(points_of(sweep(sizes=sizes)))
    log_time, _ = predict(curve, 16, 4, np.array([50e6]))
    assert np.exp(log_time[0]) == pytest.approx(ring_time_s(16, 4, 50e6), rel=0.02)
