"""What a forecast could reach that knew what allocations are drawn from."""

from dataclasses import replace

import pytest
from benchmarks.testbed.limits import limit_of
from benchmarks.testbed.predict import PREDICTORS
from benchmarks.testbed.variance import Variation

from .test_report import result


def of_links(*factors):
    return Variation((1.0,), (0.0,), factors, (0.0,), ())


def test_two_links_of_which_one_in_ten_is_slow_by_hand():
    # Nothing but exchange; two VMs: both links are fast in 0.9 * 0.9 = 81 % of the allocations, and
    # the mean is 0.81 * 1 + 0.19 * 1.25 = 1.0475 s. The others take 1.25 / 1.0475 = 1.19 of it.
    one = replace(
        result(1.0, 0.0), world_size=2, forecast_s=dict.fromkeys(PREDICTORS, 0.0), exposed_s=1.0
    )
    found = limit_of([one], of_links(*[1.0] * 9, 0.8), quantile=None)
    assert found.under == pytest.approx(0.19, abs=0.02)
    assert found.under_by_little == 0.0
    # A slow link of 0.9 is 1.11 / 1.021 of the mean: within a tenth.
    assert limit_of([one], of_links(*[1.0] * 9, 0.9), quantile=None).under_by_little == 1.0


def test_without_variance_nothing_takes_longer():
    found = limit_of([result(1.0, 1.0)], of_links(1.0), quantile=0.5)
    assert (found.under, found.under_by_little) == (0.0, 1.0)
