from hypothesis import given
from hypothesis import strategies as st

from srifty.calibration import MOST_PROBES, even_schedule, observed_workload
from srifty.core import Observation
from tests.calibration.synthetic import schedule_of


def one_gpu(batch, step_s, gpu="A", workload="small"):
    return Observation(workload, gpu, "x", (1,), batch, step_s)


def test_at_most_four_one_gpu_rows_of_each_gpu_are_used():
    rows = [one_gpu(2**power, 0.1 + 0.01 * 2**power) for power in range(10)]
    found = observed_workload("small", rows, schedule_of("small"))
    (profile,) = found.job.profiles
    batches = [latency.batch for latency in profile.latencies]
    assert len(batches) == MOST_PROBES
    assert batches[0] == 1
    assert batches[-1] == 512


def test_repeats_are_averaged_and_other_rows_passed_over():
    rows = [
        one_gpu(8, 0.1),
        one_gpu(8, 0.3),
        one_gpu(4, 5.0, workload="another"),
        Observation("small", "A", "x", (2,), 16, 9.0),
        one_gpu(4, 0.7, gpu="B"),
    ]
    found = observed_workload("small", rows, schedule_of("small"))
    by_gpu = {profile.gpu: profile.latencies for profile in found.job.profiles}
    assert [(one.batch, one.iteration_s) for one in by_gpu["A"]] == [(8, 0.2)]
    assert [(one.batch, one.iteration_s) for one in by_gpu["B"]] == [(4, 0.7)]


def test_a_workload_without_one_gpu_rows_is_none():
    rows = [Observation("small", "A", "x", (2,), 16, 9.0)]
    assert observed_workload("small", rows, schedule_of("small")) is None


@given(st.integers(1, 10**10))
def test_an_even_schedule_keeps_the_size(total):
    schedule = even_schedule(total)
    assert schedule.total_bytes == total
    assert schedule.estimated
    assert schedule.gradients[-1].ready == 1.0
