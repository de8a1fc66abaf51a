from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.catalog.builtin import builtin_gpus
from srifty.compute.estimates import estimate_profiles
from srifty.compute.latency import LatencyModel
from srifty.core.profile import BatchLatency, Gradient, GradientSchedule, Layer, WorkloadProfile
from srifty.core.work import StepMemory, StepWork
from srifty.errors import InputError
from srifty.units import GIB

GPUS = builtin_gpus()
ASKED = ("T4", "V100", "A10G", "L4", "L40S", "A100-40GB", "H100")
WORK = StepWork(
    workload="net",
    precision="fp32",
    layers=(
        Layer("conv", flops=4e9, bytes=8e6, parameters=10_000_000),
        Layer("norm", flops=0.0, bytes=8e6, parameters=1_000),
    ),
    memory=StepMemory(fixed_bytes=2e8, sample_bytes=8e7),
    gradients=GradientSchedule((Gradient("w", 40_004_000, 1.0),), estimated=True),
    notes=("counted",),
)


def curve(gpu="V100", growth=0.002, launch_s=0.01):
    return WorkloadProfile(
        workload="net",
        gpu=gpu,
        latencies=tuple(
            BatchLatency(batch=batch, iteration_s=launch_s + growth * batch)
            for batch in (1, 4, 16, 64)
        ),
        max_batch=64,
        max_batch_evidence="measured",
        precision="fp32",
        gradients=WORK.gradients,
        source="timed",
    )


def test_layers_alone_give_every_gpu_a_marked_profile():
    profiles = estimate_profiles(GPUS, ASKED, work=WORK)
    assert [profile.gpu for profile in profiles] == list(ASKED)
    for profile in profiles:
        assert profile.estimated
        assert profile.max_batch_evidence == "estimated"
        assert profile.interval_fraction is not None
        assert profile.interval_fraction >= 0.5
        assert profile.gradients == WORK.gradients
        assert "no GPU was measured" in profile.notes
        assert "counted" in profile.notes


def test_the_planner_gets_the_interval():
    (profile,) = estimate_profiles(GPUS, ["L4"], work=WORK)
    model = LatencyModel.fit(profile)
    assert profile.interval_fraction is not None
    assert model.estimated
    assert model.model_std_fraction >= profile.interval_fraction / 1.645 - 1e-9


def test_a_measured_gpu_is_scaled_and_keeps_its_own_profile():
    measured = curve()
    same, other = estimate_profiles(GPUS, ["V100", "A100-40GB"], measured=[measured], work=WORK)
    assert same is measured
    assert other.estimated
    assert "V100" in other.source
    for before, after in zip(measured.latencies, other.latencies, strict=True):
        assert after.step_s < before.step_s


def test_a_curve_makes_a_narrower_interval_than_layers():
    (scaled,) = estimate_profiles(GPUS, ["T4"], measured=[curve()], work=WORK)
    (counted,) = estimate_profiles(GPUS, ["T4"], work=WORK)
    assert scaled.interval_fraction is not None
    assert counted.interval_fraction is not None
    assert scaled.interval_fraction < counted.interval_fraction


def test_a_cpu_is_no_scale_for_a_gpu():
    (profile,) = estimate_profiles(GPUS, ["T4"], measured=[curve("Intel Xeon")], work=WORK)
    assert profile == replace(
        estimate_profiles(GPUS, ["T4"], work=WORK)[0],
        notes=(
            profile.notes[0],
            "not scaled from Intel Xeon, which is no GPU that is known",
            "counted",
        ),
    )


def test_a_host_bound_curve_is_not_scaled_and_that_is_said():
    flat = curve(growth=1e-6, launch_s=0.1)
    (profile,) = estimate_profiles(GPUS, ["T4"], measured=[flat], work=WORK)
    assert any("the host or the input rules" in note for note in profile.notes)
    assert profile.latencies[0].step_s < 0.05
    with pytest.raises(InputError, match="hardly grows"):
        estimate_profiles(GPUS, ["T4"], measured=[flat])


def test_the_precision_is_the_one_that_runs():
    work = replace(WORK, precision="bf16")
    old, new = estimate_profiles(GPUS, ["T4", "L4"], work=work)
    assert (old.precision, new.precision) == ("fp32", "bf16")


def test_memory_decides_the_largest_batch():
    sizes = {p.gpu: p.max_batch for p in estimate_profiles(GPUS, ["M60", *ASKED], work=WORK)}
    assert sizes["M60"] < sizes["T4"] < sizes["A10G"] <= sizes["A100-40GB"] < sizes["H100"]
    # (16 GiB - 0.8 GiB) / 1.1 less 0.2 GB, in samples of 80 MB: 183
    assert sizes["T4"] == 128


def test_what_does_not_fit_is_refused():
    giant = replace(WORK, memory=StepMemory(fixed_bytes=30 * GIB, sample_bytes=1e9))
    with pytest.raises(InputError, match=r"does not fit in the memory of T4"):
        estimate_profiles(GPUS, ["A100-40GB", "T4"], work=giant)
    pairs = replace(
        WORK, min_batch=2, memory=StepMemory(fixed_bytes=10 * GIB, sample_bytes=3 * GIB)
    )
    with pytest.raises(InputError, match="with 2 samples"):
        estimate_profiles(GPUS, ["T4"], work=pairs)


@pytest.mark.parametrize(
    ("targets", "message"),
    [([], "at least one GPU"), (["A100"], r"no data sheet of A100; known GPUs: .*A100-40GB")],
)
def test_bad_targets_are_refused(targets, message):
    with pytest.raises(InputError, match=message):
        estimate_profiles(GPUS, targets, work=WORK)


def test_nothing_to_go_by_is_refused():
    with pytest.raises(InputError, match="no GPU was measured; its layers must be counted"):
        estimate_profiles(GPUS, ["T4"])


@given(
    st.lists(
        st.tuples(st.floats(1e6, 1e11), st.floats(1e3, 1e8), st.integers(0, 10**7)),
        min_size=1,
        max_size=8,
    )
)
def test_a_better_gpu_is_never_estimated_slower(rows):
    layers = tuple(Layer(f"l{i}", *row) for i, row in enumerate(rows))
    work = replace(WORK, layers=layers, gradients=None)
    steps = {
        profile.gpu: {latency.batch: latency.step_s for latency in profile.latencies}
        for profile in estimate_profiles(GPUS, ["M60", "V100", "H100"], work=work)
    }
    for batch, step_s in steps["M60"].items():
        assert step_s >= steps["V100"][batch] >= steps["H100"][batch]
