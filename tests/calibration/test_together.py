"""Types that were observed together share how an exchange grows."""

from dataclasses import replace

import numpy as np
import pytest

from srifty.calibration import LinkFactors, calibrate, calibrate_together
from tests.calibration.synthetic import KIND, PRIOR, observed, workloads

OTHER = replace(KIND, name="c4.large")
# Growth that is not the usual one.
FACTORS = LinkFactors(between=0.8, two_vms=0.4, per_log_gpus=-0.4, per_log_vms=0.3, inside=0.3)


@pytest.fixture(scope="module")
def rows():
    """One type seen in many worlds, another on two VMs with one GPU each alone."""
    many = observed(factors=FACTORS)
    few = [row for row in many if row.gpus_used == (1, 1)]
    return [*many, *(replace(row, instance_type=OTHER.name) for row in few)]


def test_one_type_says_how_the_other_grows(rows):
    alone = calibrate(OTHER, rows, workloads(), PRIOR)
    _, together = calibrate_together([KIND, OTHER], rows, workloads(), PRIOR)
    world, vms = np.array([16, 32]), np.array([4, 8])
    truth = FACTORS.log_factor(world, vms)
    off_alone = np.abs(alone.factors.log_factor(world, vms) - truth)
    off_together = np.abs(together.factors.log_factor(world, vms) - truth)
    assert np.all(off_together < 0.5 * off_alone)
    near, far = (c.link("large").log_std(world, vms) for c in (together, alone))
    assert np.all(near < far)


def test_a_type_keeps_a_link_of_its_own(rows):
    slower = [
        replace(row, step_s=3 * row.step_s) if row.instance_type == OTHER.name else row
        for row in rows
    ]
    first, second = calibrate_together([KIND, OTHER], slower, workloads(), PRIOR)
    world, vms = np.array([2]), np.array([2])
    assert second.factors.log_factor(world, vms) > first.factors.log_factor(world, vms) + 0.3
    (alone,) = calibrate_together([KIND], slower, workloads(), PRIOR)
    assert alone == calibrate(KIND, slower, workloads(), PRIOR)
    np.testing.assert_allclose(
        first.factors.log_factor(np.array([16]), np.array([4])),
        alone.factors.log_factor(np.array([16]), np.array([4])),
        atol=0.05,
    )
