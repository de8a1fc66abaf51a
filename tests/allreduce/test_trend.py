"""The trend: exact where the law is one, sane where the worlds do not tell its parts."""

from __future__ import annotations

import numpy as np
import pytest

from srifty.allreduce.table import Points, SampleTable
from srifty.allreduce.trend import Trend

from .worlds import sweep


def trend_of(samples):
    return Trend.fit(Points.of(SampleTable.of(samples), 0, between=True))


def law(n, vms, size):
    bus_bytes = 2 * size * (n - 1) / n
    return 10e-6 + 20e-6 * np.log2(vms) + 5e-6 * np.log2(n / vms) + bus_bytes / 3e9


def test_its_own_law_is_recovered():
    worlds = ((4, 2), (16, 2), (16, 8), (64, 8))
    trend = trend_of(sweep(worlds=worlds, law=law))
    assert trend.coefficients == pytest.approx((10e-6, 20e-6, 5e-6, 1 / 3e9), rel=1e-6)


def test_of_one_world_latency_grows_with_the_depth_of_a_tree():
    trend = trend_of(sweep(worlds=((2, 2),), law=lambda n, v, s: 50e-6 + s / 1e9))
    one = np.array([1.0])
    at = [float(np.exp(trend.log_time(one * n, one * n, one * 4))[0]) for n in (2, 16, 64)]
    assert at == pytest.approx([50e-6, 200e-6, 300e-6], rel=1e-3)


def test_what_never_varied_has_no_say_elsewhere():
    """All of the latency must not hang on log2 g when every world had 8 ranks per VM."""
    trend = trend_of(sweep(worlds=((16, 2), (32, 4)), law=law))
    one = np.array([1.0])
    log_time = trend.log_time(one * 4, one * 4, one * 4)
    assert np.exp(log_time[0]) > 10e-6


def test_no_coefficient_is_negative_whatever_the_noise():
    for seed in range(20):
        trend = trend_of(sweep(noise=1.0, seed=seed, law=law))
        assert min(trend.coefficients) >= 0
