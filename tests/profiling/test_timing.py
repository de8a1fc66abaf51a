import pytest

torch = pytest.importorskip("torch")

from srifty.profiling.steps import StepRunner, StepTimes
from srifty.profiling.testing import FakeAsyncDevice, queued_workload
from srifty.profiling.timing import Chunk, Effort, Stopwatch, chunk_steps, is_enough, summarise
from srifty.profiling.timing_notes import timing_notes


class HostTimed(FakeAsyncDevice):
    """The mistake of M06: marks by the host's clock, which only sees the queueing."""

    def clock(self):
        return self.host_s()


def stopwatch(device, **workload) -> Stopwatch:
    return Stopwatch(StepRunner(queued_workload(device, **workload), device))


def chunk(*steps_s, batch=4, wall_s=None) -> Chunk:
    times = tuple(StepTimes(0.3 * s, 0.5 * s, 0.2 * s, s) for s in steps_s)
    return Chunk(batch, times, sum(steps_s) if wall_s is None else wall_s)


def test_m06_parts_add_up_to_the_wall_time_of_fifty_steps():
    device = FakeAsyncDevice()
    timed = summarise([stopwatch(device).chunk(10, 50)])
    assert timed.forward_s == pytest.approx(0.003, rel=0.02)
    assert timed.backward_s == pytest.approx(0.006, rel=0.02)
    assert timed.optimizer_s == pytest.approx(0.001, rel=0.02)
    assert abs(timed.missing) < 0.05
    assert timing_notes([timed], 0.02) == ()


def test_m06_timing_by_the_host_s_clock_is_found_out():
    timed = summarise([stopwatch(HostTimed()).chunk(10, 50)])
    assert timed.missing > 0.9
    assert any("wall time" in note for note in timing_notes([timed], 0.02))


def test_m06_the_first_iterations_do_not_count():
    device = FakeAsyncDevice(start_up_s=5.0)
    watch = stopwatch(device)
    first_s, steady_s = watch.warm_up(10)
    assert first_s == pytest.approx(5.010, rel=0.01)
    assert steady_s == pytest.approx(0.010, rel=0.02)
    timed = summarise([watch.chunk(10, 20)])
    assert timed.std_s < 0.02 * steady_s
    assert timed.forward_s == pytest.approx(0.003, rel=0.02)


def test_m06_a_second_measurement_equals_the_first():
    watch = stopwatch(FakeAsyncDevice())
    first, second = (summarise([watch.chunk(10, 20)]) for _ in range(2))
    assert second.forward_s == pytest.approx(first.forward_s, rel=1e-3)
    assert second.backward_s == pytest.approx(first.backward_s, rel=1e-3)


def test_warm_up_goes_on_while_steps_get_faster():
    device = FakeAsyncDevice()
    watch = stopwatch(device)
    runner, steps = watch.runner, []
    plain = runner.step

    def slower_at_first(batch):
        device.work(max(0.0, 0.1 - 0.01 * len(steps)))
        steps.append(1)
        return plain(batch)

    runner.step = slower_at_first
    _, steady_s = watch.warm_up(10)
    assert len(steps) > 10
    assert steady_s == pytest.approx(0.010, rel=0.05)


def test_medians_and_quartiles_forget_a_disturbed_step():
    timed = summarise([chunk(*[1.0] * 20, 50.0), chunk(*[1.1] * 5)])
    assert timed.forward_s == pytest.approx(0.3)
    assert timed.std_s < 0.2
    assert timed.disturbed == pytest.approx(1 / 26)
    assert any("twice the median" in note for note in timing_notes([timed], 0.5))


def test_a_drift_of_all_sizes_is_said_and_one_of_a_single_size_is_not():
    slower = [summarise([chunk(*[1.0] * 10, *[1.3] * 20, batch=b)]) for b in (4, 8)]
    steady = summarise([chunk(*[1.0] * 30, batch=16)])
    assert any("drifts" in note for note in timing_notes(slower, 0.9))
    assert not any("drifts" in note for note in timing_notes([*slower, steady], 0.9))


def test_enough_is_a_matter_of_steps_and_precision():
    effort = Effort(precision=0.02, least_steps=10, most_steps=40)
    assert not is_enough(summarise([chunk(*[1.0] * 9)]), effort)
    assert is_enough(summarise([chunk(*[1.0] * 10)]), effort)
    noisy = [1.0, 1.5] * 10
    assert not is_enough(summarise([chunk(*noisy)]), effort)
    assert is_enough(summarise([chunk(*noisy, *noisy)]), effort)


def test_what_is_not_known_well_enough_is_said():
    noisy = summarise([chunk(*[1.0, 1.5] * 10)])
    assert any("was asked for" in note for note in timing_notes([noisy], 0.02))


@pytest.mark.parametrize(("step_s", "steps"), [(0.0, 50), (1e-3, 50), (0.02, 12), (10.0, 3)])
def test_long_steps_run_in_small_groups(step_s, steps):
    assert chunk_steps(step_s) == steps
