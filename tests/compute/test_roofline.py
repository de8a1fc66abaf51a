from dataclasses import replace

import numpy as np
import pytest

from srifty.compute.memory import estimate_max_batch, scale_max_batch
from srifty.compute.roofline import Efficiency, layer_times_s, profile_from_layers
from srifty.compute.scaling import (
    estimate_profile,
    is_host_bound,
    launch_time_s,
    scale_profile,
)
from srifty.compute.speed import SpeedModel
from srifty.core.hardware import GpuModel
from srifty.core.profile import BatchLatency, Gradient, GradientSchedule, Layer, WorkloadProfile
from srifty.errors import InputError
from srifty.units import GIB

FAST = GpuModel("FAST", "New", 16 * GIB, 800e9, {"fp32": 16e12, "fp16": 128e12}, "made up")
SLOW = GpuModel("SLOW", "Old", 8 * GIB, 200e9, {"fp32": 4e12}, "made up")
GPUS = {"FAST": FAST, "SLOW": SLOW}
# Both rates of FAST are four times SLOW's, so it is four times as fast in fp32.
HALVES = SpeedModel(flops=0.5, bandwidth=0.5, tensor=0.0)


def measured(gpu: str = "FAST", launch_s: float = 0.02, per_sample_s: float = 0.001, **changes):
    profile = WorkloadProfile(
        workload="net",
        gpu=gpu,
        latencies=tuple(
            BatchLatency(batch=batch, iteration_s=launch_s + per_sample_s * batch)
            for batch in (1, 2, 4, 8, 16, 32)
        ),
        max_batch=32,
        precision="fp32",
        gradients=GradientSchedule((Gradient("w", 4_000_000, 1.0),)),
        source="made up",
    )
    return replace(profile, **changes)


def test_a_gpu_without_half_precision_is_estimated_in_fp32():
    estimate = scale_profile(measured(precision="fp16"), FAST, SLOW)
    assert estimate.precision == "fp32"


def test_the_launch_time_of_a_line_is_its_intercept():
    assert launch_time_s([1, 2, 4], [0.03, 0.05, 0.09]) == pytest.approx(0.01)


def test_the_launch_time_is_neither_negative_nor_the_whole_step():
    assert launch_time_s([1, 2, 4], [0.01, 0.03, 0.07]) == 0.0
    assert launch_time_s([1, 2, 4], [0.1, 0.1, 0.1]) == pytest.approx(0.09)
    assert launch_time_s([4], [0.1]) == 0.0


def test_scaling_keeps_the_launch_part_and_stretches_the_rest():
    profile = measured(launch_s=0.01, per_sample_s=0.002)
    estimate = scale_profile(profile, FAST, SLOW, speed=HALVES)
    for latency in estimate.latencies:
        assert latency.step_s == pytest.approx(0.01 + 4 * 0.002 * latency.batch, rel=1e-6)


def test_a_scaled_profile_says_what_it_is():
    estimate = scale_profile(measured(), FAST, SLOW)
    assert estimate.estimated
    assert estimate.gpu == "SLOW"
    assert estimate.interval_fraction is not None
    assert estimate.interval_fraction >= 0.3
    assert estimate.max_batch_evidence == "estimated"
    assert "FAST" in estimate.source
    assert any("ESTIMATED" in note for note in estimate.notes)
    assert estimate.gradients == measured().gradients


def test_scaling_onto_the_same_gpu_changes_no_time():
    estimate = scale_profile(measured(), FAST, FAST, max_batch=32)
    for before, after in zip(measured().latencies, estimate.latencies, strict=True):
        assert after.step_s == pytest.approx(before.step_s)


def test_split_profiles_stay_split():
    latencies = tuple(
        BatchLatency(batch=b, forward_s=0.001 * b, backward_s=0.002 * b, optimizer_s=0.003)
        for b in (1, 2, 4)
    )
    estimate = scale_profile(measured(latencies=latencies), FAST, SLOW, speed=HALVES)
    last = estimate.latencies[-1]
    assert last.forward_s == pytest.approx(0.016)
    assert last.backward_s == pytest.approx(0.032)
    assert last.optimizer_s == pytest.approx(0.012)


def test_several_gpus_give_their_geometric_mean_where_all_were_measured():
    other = replace(FAST, name="OTHER")
    twice = measured("OTHER", launch_s=0.0, per_sample_s=0.004)
    once = measured(launch_s=0.0, per_sample_s=0.001)
    twice = replace(twice, latencies=twice.latencies[1:5])
    gpus = {**GPUS, "OTHER": other}
    estimate = estimate_profile([once, twice], gpus, SLOW, speed=HALVES)
    assert [latency.batch for latency in estimate.latencies] == [2, 4, 8, 16]
    for latency in estimate.latencies:
        assert latency.step_s == pytest.approx(4 * 0.002 * latency.batch)


def test_a_nearer_gpu_counts_more():
    near = replace(SLOW, name="NEAR")
    far = measured(launch_s=0.0, per_sample_s=0.001)
    estimate = estimate_profile(
        [far, measured("NEAR", launch_s=0.0, per_sample_s=0.016)],
        {**GPUS, "NEAR": near},
        SLOW,
        speed=HALVES,
    )
    # Both alike would give the geometric mean of 4 and 16 ms a sample.
    assert estimate.latencies[0].step_s > 0.012
    assert estimate.latencies[0].step_s < 0.016


def test_without_a_common_batch_the_nearest_gpu_stands_alone():
    small = replace(measured(), latencies=measured().latencies[:2])
    large = measured("NEAR", launch_s=0.0, per_sample_s=0.01)
    large = replace(large, latencies=large.latencies[4:])
    gpus = {**GPUS, "NEAR": replace(SLOW, name="NEAR")}
    estimate = estimate_profile([small, large], gpus, SLOW)
    assert [latency.batch for latency in estimate.latencies] == [16, 32]
    assert [latency.step_s for latency in estimate.latencies] == pytest.approx([0.16, 0.32])


def test_the_interval_grows_with_the_distance():
    near = replace(FAST, name="NEAR", memory_bytes_per_s=700e9)
    narrow = scale_profile(measured(), FAST, near).interval_fraction
    wide = scale_profile(measured(), FAST, SLOW).interval_fraction
    assert narrow is not None
    assert wide is not None
    assert 0.15 < narrow < wide < 1.0


@pytest.mark.parametrize(
    ("times_s", "bound"),
    [((0.1, 0.1, 0.11), True), ((0.1, 0.2, 0.8), False), ((0.1, 0.12, 0.19), False)],
)
def test_a_step_that_hardly_grows_is_host_bound(times_s, bound):
    latencies = tuple(
        BatchLatency(batch=batch, iteration_s=time_s)
        for batch, time_s in zip((4, 8, 32), times_s, strict=True)
    )
    assert is_host_bound(measured(latencies=latencies)) is bound


def test_a_narrow_range_of_batches_tells_nothing_of_the_host():
    latencies = tuple(BatchLatency(batch=batch, iteration_s=0.1) for batch in (4, 8))
    assert not is_host_bound(measured(latencies=latencies))


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ([], "at least one"),
        ([measured("UNKNOWN")], "UNKNOWN"),
        ([measured(), measured(workload="other")], "several workloads"),
    ],
)
def test_bad_profiles_are_refused(profiles, message):
    with pytest.raises(InputError, match=message):
        estimate_profile(profiles, GPUS, SLOW)


COMPUTE = Layer("conv", flops=2e9, bytes=1e6, parameters=0)
MEMORY = Layer("norm", flops=1e6, bytes=4e7, parameters=0)
PERFECT = Efficiency(flops=1.0, bandwidth=1.0, launch_s=0.0, tensor_flops=1.0)


def test_a_layer_takes_the_longer_of_work_and_traffic():
    forward_s, backward_s = layer_times_s([COMPUTE, MEMORY], FAST, 8, "fp32", PERFECT)
    assert forward_s == pytest.approx([8 * 2e9 / 16e12, 8 * 2 * 4e7 / 800e9])
    assert backward_s == pytest.approx(2 * forward_s)


def test_launches_and_gradients_count_once_per_pass():
    heavy = replace(MEMORY, parameters=1_000_000)
    costly = replace(PERFECT, launch_s=1e-4)
    forward_s, backward_s = layer_times_s([heavy], FAST, 1, "fp32", costly)
    assert forward_s[0] == pytest.approx(2 * 4e7 / 800e9 + 1e-4)
    assert backward_s[0] == pytest.approx(2 * forward_s[0] + 2 * 4e6 / 800e9)


def test_fast_convolutions_save_work_in_fp32_only():
    plain, _ = layer_times_s([COMPUTE], FAST, 8, "fp32", PERFECT)
    saved, _ = layer_times_s([COMPUTE], FAST, 8, "fp32", PERFECT, fast_layers={"conv"})
    assert plain[0] / saved[0] == pytest.approx(2.25)
    half, _ = layer_times_s([COMPUTE], FAST, 1000, "fp16", PERFECT)
    same, _ = layer_times_s([COMPUTE], FAST, 1000, "fp16", PERFECT, fast_layers={"conv"})
    assert np.array_equal(half, same)


def test_half_precision_halves_the_traffic_and_computes_on_tensor_cores():
    full, _ = layer_times_s([MEMORY], FAST, 8, "fp32", PERFECT)
    half, _ = layer_times_s([MEMORY], FAST, 8, "fp16", PERFECT)
    assert half == pytest.approx(full / 2)
    slow_units = replace(PERFECT, tensor_flops=0.5)
    on_units, _ = layer_times_s([COMPUTE], FAST, 8, "fp16", slow_units)
    assert on_units == pytest.approx([8 * 2e9 / 64e12])
    without, _ = layer_times_s([COMPUTE], SLOW, 8, "fp16", slow_units)
    assert without == pytest.approx([8 * 2e9 / 4e12])


def test_the_backward_pass_follows_its_share_of_operations():
    forward_s, backward_s = layer_times_s([COMPUTE], FAST, 8, "fp32", PERFECT, backward_ratio=1.0)
    assert backward_s == pytest.approx(forward_s)


def test_a_profile_from_layers_is_split_rising_and_marked():
    gradients = GradientSchedule((Gradient("w", 4, 1.0),))
    profile = profile_from_layers("net", [COMPUTE, MEMORY], gradients, FAST, max_batch=20)
    assert [latency.batch for latency in profile.latencies] == [1, 2, 4, 8, 16]
    steps = [latency.step_s for latency in profile.latencies]
    assert steps == sorted(steps)
    assert profile.is_split
    assert profile.estimated
    assert profile.interval_fraction is not None
    assert profile.interval_fraction >= 0.3
    assert profile.layers == (COMPUTE, MEMORY)


def test_no_layers_are_refused():
    with pytest.raises(InputError, match="at least one layer"):
        profile_from_layers("net", [], None, FAST)


def test_a_model_that_fills_the_memory_is_refused():
    giant = Layer("giant", flops=1.0, bytes=1.0, parameters=2_000_000_000)
    assert estimate_max_batch([giant], FAST.memory_bytes) == 0
    with pytest.raises(InputError, match="does not fit"):
        profile_from_layers("giant", [giant], None, FAST)


def test_max_batch_is_the_power_of_two_that_fits():
    layer = Layer("layer", flops=1.0, bytes=100.0, parameters=10)
    free = 160 + 130 * 40.0
    fits = estimate_max_batch([layer], free, context_bytes=0)
    assert fits == 32
    assert estimate_max_batch([layer], free, context_bytes=0, largest=8) == 8


def test_memory_scales_what_is_left_after_the_fixed_part():
    scaled = scale_max_batch(
        64, 0, memory_bytes=16 * GIB, target_memory_bytes=8 * GIB, context_bytes=0
    )
    assert scaled == 32
    assert scale_max_batch(64, 0, memory_bytes=16 * GIB, target_memory_bytes=8 * GIB) == 16
    big = 500_000_000
    assert scale_max_batch(64, big, memory_bytes=16 * GIB, target_memory_bytes=8 * GIB) == 0
    with pytest.raises(InputError, match="alone fill"):
        scale_max_batch(64, 2 * big, memory_bytes=8 * GIB, target_memory_bytes=16 * GIB)


def test_a_profile_that_does_not_fit_the_target_is_refused():
    gradients = GradientSchedule((Gradient("w", 2_000_000_000, 1.0),))
    with pytest.raises(InputError, match="does not fit"):
        scale_profile(measured(gradients=gradients), FAST, SLOW)


@pytest.mark.parametrize("field", ["flops", "bandwidth", "tensor_flops"])
def test_an_efficiency_of_zero_is_refused(field):
    with pytest.raises(InputError, match=field):
        Efficiency(**{field: 0.0})
