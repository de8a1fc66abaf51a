"""Five of the schedules of `benchmarks/chaos.py`, and a controller that never comes back."""

from __future__ import annotations

import pytest
from benchmarks.chaos import deserted, disturbed


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_is_disturbed_ends_as_it_must(tmp_path, seed):
    assert disturbed(tmp_path, seed, acts=2).problems == []


def test_nothing_is_left_of_a_run_whose_controller_never_comes_back(tmp_path):
    assert deserted(tmp_path, 1).problems == []
