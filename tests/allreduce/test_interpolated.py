"""Interpolation: through every point, linear in the logarithms, sensible at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from srifty.allreduce.interpolated import InterpolatedCurve
from srifty.allreduce.table import Points, SampleTable

from .worlds import SIZES, sweep


def curve_of(samples):
    return InterpolatedCurve(Points.of(SampleTable.of(samples), 0, between=True))


def log_time(curve, world_size, vms, sizes):
    """One world, several sizes."""
    n, v = np.full(len(sizes), float(world_size)), np.full(len(sizes), float(vms))
    return curve.log_time(n, v, sizes)


def power_law(n, vms, size):
    return 1e-5 * n**0.5 * size**0.7


def test_a_power_law_of_size_and_world_is_met_exactly():
    curve = curve_of(sweep(law=power_law))
    sizes = np.array([300.0, 1e5, 7e6])
    for n in (8, 12, 16, 50, 64):
        log_times = log_time(curve, n, n / 4, sizes)
        assert np.exp(log_times) == pytest.approx(power_law(n, n / 4, sizes))


def test_beyond_the_worlds_the_nearest_one_is_taken():
    curve = curve_of(sweep(law=power_law))
    sizes = np.array([1e5])
    assert log_time(curve, 256, 64, sizes) == pytest.approx(log_time(curve, 64, 16, sizes))
    assert log_time(curve, 4, 1, sizes) == pytest.approx(log_time(curve, 8, 2, sizes))


def test_beyond_the_sizes_latency_stays_and_bytes_add_time():
    curve = curve_of(sweep(law=power_law))
    low, high = SIZES[0], SIZES[-1]
    ends = log_time(curve, 8, 2, np.array([low / 4, low, high, high * 4]))
    assert ends[0] == ends[1]
    assert ends[3] - ends[2] == pytest.approx(np.log(4))


def test_worlds_with_as_many_gpus_per_vm_are_preferred():
    fast = sweep(worlds=((8, 8), (32, 32)), law=lambda n, v, s: 1e-6 * s)
    slow = sweep(worlds=((16, 2), (64, 8)), law=lambda n, v, s: 1e-5 * s)
    curve = curve_of(fast + slow)
    sizes = np.array([1e6])
    assert np.exp(log_time(curve, 16, 16, sizes)) == pytest.approx(1.0)
    assert np.exp(log_time(curve, 32, 4, sizes)) == pytest.approx(10.0)
