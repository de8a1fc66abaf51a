"""The estimates on public curves: how far they may be off. Skipped without the data."""

import os
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", REPOSITORY.parent / "shared" / "data"))

pytestmark = pytest.mark.skipif(
    not (DATA / "sailor").is_dir(),
    reason=f"there are no curves in {DATA}; SRIFTY_PUBLIC_DATA names their folder",
)

from benchmarks import leave_one_chip_out as estimates  # noqa: E402
from benchmarks.public_gpu_curves import CHIP, public_curves, timm_curves  # noqa: E402

from srifty.compute import intervals  # noqa: E402
from srifty.compute.efficiency import fit_efficiency  # noqa: E402
from srifty.compute.roofline import Efficiency  # noqa: E402
from srifty.compute.speed import SpeedModel, fit_speed  # noqa: E402


@pytest.fixture(scope="module")
def workloads():
    return estimates.workloads_of(public_curves(DATA))


def test_the_shipped_speed_model_is_the_fit_to_the_public_curves(workloads):
    fitted = fit_speed(estimates.comparisons(workloads, frozenset()))
    shipped = SpeedModel()
    for name in ("flops", "bandwidth", "tensor"):
        assert getattr(shipped, name) == pytest.approx(getattr(fitted, name), abs=0.01)


def test_the_shipped_efficiencies_are_the_fit_to_the_public_curves():
    known = estimates.layer_curves([*public_curves(DATA), *timm_curves(DATA)])
    fitted = fit_efficiency([steps for _, steps in known])
    shipped = Efficiency()
    for name in ("flops", "bandwidth", "tensor_flops", "launch_s"):
        assert getattr(shipped, name) == pytest.approx(getattr(fitted, name), rel=0.03)


def test_no_curve_of_a_held_out_chip_is_in_a_fit(workloads):
    for chip in estimates.chips_of(workloads):
        for comparison in estimates.comparisons(workloads, frozenset({chip})):
            assert CHIP[comparison.measured_on.name] != chip
            assert CHIP[comparison.target.name] != chip


def test_held_out_chips_are_estimated_as_well_as_the_documentation_says(workloads):
    errors, inside = [], []
    for chip in estimates.chips_of(workloads):
        hidden = frozenset({chip})
        speed = fit_speed(estimates.comparisons(workloads, hidden))
        for estimate in estimates.scaled_from_all(workloads, chip, hidden, speed):
            if estimate.curve.data_set != "lambda_gpu_benchmarks":
                errors.append(estimate.error)
                width = intervals.scaled_fraction(estimate.apart, estimate.gpus)
                inside.append(estimate.inside(width))
    assert len(errors) > 150
    assert np.mean(errors) <= 0.25
    # With the shipped widths; the benchmark fits those without the chip too.
    assert 0.85 <= np.mean(inside) <= 0.97
