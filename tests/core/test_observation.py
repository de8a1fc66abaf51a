import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.core import Observation
from srifty.core.observation import spread_evenly
from srifty.errors import InputError


@given(st.integers(1, 64), st.integers(1, 64))
def test_workers_are_spread_evenly(vms, more):
    spread = spread_evenly(vms + more, vms)
    assert len(spread) == vms
    assert sum(spread) == vms + more
    assert max(spread) - min(spread) <= 1
    assert list(spread) == sorted(spread, reverse=True)


def test_an_observation_counts_vms_and_workers():
    row = Observation("a", "T4", "x", (4, 4, 2), 8, 0.5)
    assert (row.vms, row.world_size) == (3, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload": ""}, "workload is empty"),
        ({"gpus_used": ()}, "at least one VM"),
        ({"gpus_used": (4, 0)}, "GPUs used of a VM"),
        ({"gpus_used": (442,)}, "GPUs used of a VM must be at most 64"),
        ({"local_batch": 0}, "local_batch"),
        ({"step_s": 0.0}, "step_s must be above 0"),
    ],
)
def test_impossible_observations_are_refused(changes, message):
    fields = {
        "workload": "a", "gpu": "T4", "instance_type": "x", "gpus_used": (1,), "local_batch": 8,
        "step_s": 0.5,
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        Observation(**(fields | changes))
