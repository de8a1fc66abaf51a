from dataclasses import replace

import pytest

from srifty.compute.efficiency import MeasuredSteps, fit_efficiency
from srifty.compute.roofline import Efficiency, LayerColumns
from srifty.core.hardware import GpuModel
from srifty.core.profile import Layer
from srifty.core.work import StepWork
from srifty.errors import InputError
from srifty.units import GIB

CARD = GpuModel("CARD", "New", 16 * GIB, 800e9, {"fp32": 16e12, "fp16": 128e12}, "made up")
WORK = StepWork(
    workload="net",
    precision="fp32",
    layers=(
        Layer("conv", flops=4e9, bytes=1e6, parameters=10_000),
        Layer("norm", flops=0.0, bytes=2e7, parameters=100),
    ),
)
BATCHES = (1, 8, 64)


# Either alone, so that neither efficiency hides behind the other.
CONV, NORM = (replace(WORK, layers=(layer,)) for layer in WORK.layers)


def curve(efficiency, precision, work):
    columns = LayerColumns.of(work.layers, CARD, precision)
    times_s = columns.steps_s(BATCHES, efficiency, work.backward_ratio)
    return MeasuredSteps(work, CARD, precision, tuple(zip(BATCHES, times_s.tolist(), strict=True)))


def test_the_efficiencies_behind_curves_are_found():
    truth = Efficiency(flops=0.7, bandwidth=0.6, launch_s=150e-6, tensor_flops=0.25)
    curves = [curve(truth, p, work) for p in ("fp32", "fp16") for work in (CONV, NORM)]
    found = fit_efficiency(curves * 200)
    assert found.flops == pytest.approx(0.7, rel=0.05)
    assert found.bandwidth == pytest.approx(0.6, rel=0.05)
    assert found.launch_s == pytest.approx(150e-6, rel=0.1)
    assert found.tensor_flops == pytest.approx(0.25, rel=0.05)


def test_without_curves_the_prior_comes_back():
    found = fit_efficiency([])
    assert found.flops == pytest.approx(0.55, rel=0.02)
    assert found.launch_s == pytest.approx(80e-6, rel=0.02)


def test_a_curve_without_steps_is_refused():
    with pytest.raises(InputError, match="no steps"):
        MeasuredSteps(WORK, CARD, "fp32", ())
