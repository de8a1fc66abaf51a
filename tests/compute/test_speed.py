import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.compute.speed import Comparison, SpeedModel, distance, fit_speed
from srifty.core.hardware import GpuModel
from srifty.errors import InputError
from srifty.units import GIB

FAST = GpuModel("FAST", "New", 16 * GIB, 800e9, {"fp32": 16e12, "fp16": 128e12}, "made up")
SLOW = GpuModel("SLOW", "Old", 8 * GIB, 200e9, {"fp32": 4e12}, "made up")
WIDE = replace(SLOW, name="WIDE", memory_bytes_per_s=400e9)
DENSE = replace(SLOW, name="DENSE", peak_flops={"fp32": 16e12})

rates = st.floats(1e9, 1e16)
gpus = st.builds(
    lambda fp32, fp16, bandwidth: GpuModel(
        "G", "A", GIB, bandwidth, {"fp32": fp32} | ({"fp16": fp16} if fp16 else {}), "made up"
    ),
    rates,
    st.none() | rates,
    rates,
)


def test_the_ratio_is_a_product_of_powers():
    model = SpeedModel(flops=0.5, bandwidth=1.0, tensor=0.0)
    assert model.ratio(FAST, SLOW, "fp32") == pytest.approx(2 * 4)
    assert model.ratio(SLOW, WIDE, "fp32") == pytest.approx(1 / 2)


def test_tensor_cores_add_their_gain_only_where_one_gpu_has_them():
    plain = SpeedModel(tensor=0.0)
    gain = SpeedModel(tensor=math.log(2))
    assert gain.ratio(FAST, SLOW, "fp16") == pytest.approx(2 * plain.ratio(FAST, SLOW, "fp16"))
    assert gain.ratio(FAST, SLOW, "fp32") == pytest.approx(plain.ratio(FAST, SLOW, "fp32"))
    other = replace(FAST, name="OTHER")
    assert gain.ratio(FAST, other, "fp16") == pytest.approx(1.0)


@given(gpus, gpus, st.sampled_from(["fp32", "fp16", "unknown"]))
def test_there_and_back_again_is_one(one, other, precision):
    model = SpeedModel()
    there = model.ratio(one, other, precision)
    assert there * model.ratio(other, one, precision) == pytest.approx(1.0)
    assert model.ratio(one, one, precision) == pytest.approx(1.0)
    assert distance(one, other, precision) == pytest.approx(distance(other, one, precision))


@given(gpus, gpus, gpus)
def test_distances_keep_the_triangle(one, two, three):
    detour = distance(one, two, "fp32") + distance(two, three, "fp32")
    assert distance(one, three, "fp32") <= detour + 1e-9


def test_without_comparisons_the_prior_comes_back():
    assert fit_speed([]) == SpeedModel(flops=0.25, bandwidth=0.75, tensor=0.0)


def _true(model, pairs, times=400):
    return [
        Comparison(a, b, precision, math.log(model.ratio(a, b, precision)))
        for a, b, precision in pairs
    ] * times


PAIRS = [(SLOW, WIDE, "fp32"), (SLOW, DENSE, "fp32"), (DENSE, FAST, "fp16"), (WIDE, FAST, "fp32")]


def test_many_comparisons_outweigh_the_prior():
    truth = SpeedModel(flops=0.6, bandwidth=0.4, tensor=0.3)
    found = fit_speed(_true(truth, PAIRS))
    assert found.flops == pytest.approx(0.6, abs=0.03)
    assert found.bandwidth == pytest.approx(0.4, abs=0.03)
    assert found.tensor == pytest.approx(0.3, abs=0.1)


def test_an_outlier_pulls_little():
    truth = SpeedModel(flops=0.3, bandwidth=0.7, tensor=0.1)
    clean = fit_speed(_true(truth, PAIRS))
    absurd = Comparison(SLOW, WIDE, "fp32", math.log(50.0))
    assert fit_speed([*_true(truth, PAIRS), absurd]).bandwidth == pytest.approx(
        clean.bandwidth, abs=0.02
    )


def test_an_exponent_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="bandwidth"):
        SpeedModel(bandwidth=math.nan)
