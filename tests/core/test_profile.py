from dataclasses import replace

import pytest

from srifty.core import BatchLatency, Gradient, GradientSchedule, Item, Layer
from srifty.errors import InputError
from tests.builders import make_profile, make_schedule

NAN = float("nan")


def test_step_time_sums_the_parts_or_is_the_whole():
    assert BatchLatency(1, 0.1, 0.2).step_s == pytest.approx(0.3)
    assert BatchLatency(1, 0.1, 0.2, 0.05).step_s == pytest.approx(0.35)
    whole = BatchLatency(1, iteration_s=0.4)
    assert whole.step_s == 0.4
    assert not whole.is_split


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "batch 8 needs forward_s and backward_s, or iteration_s"),
        ({"forward_s": 0.1}, "batch 8 needs forward_s and backward_s"),
        ({"forward_s": 0.1, "iteration_s": 0.3}, "only one of forward_s and backward_s"),
        ({"forward_s": -0.1, "backward_s": 0.1}, "batch 8: forward_s must be above 0"),
        ({"forward_s": 0.1, "backward_s": 0.0}, "batch 8: backward_s must be above 0"),
        ({"iteration_s": NAN}, "batch 8: iteration_s must be above 0, not nan"),
        ({"iteration_s": float("inf")}, "batch 8: iteration_s must lie between"),
        ({"iteration_s": 1e308}, "batch 8: iteration_s must lie between"),
        ({"iteration_s": 1e-320}, "batch 8: iteration_s must lie between"),
        ({"iteration_s": 0.1, "std_s": -1.0}, "batch 8: std_s must be 0 or more"),
        ({"iteration_s": 0.1, "optimizer_s": NAN}, "batch 8: optimizer_s must be 0 or more"),
        ({"iteration_s": 0.1, "steps": 0}, "batch 8: steps must be a whole number"),
    ],
)
def test_latencies_refused(fields, words):
    with pytest.raises(InputError) as caught:
        BatchLatency(8, **fields)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("size", "ready", "words"),
    [(0, 0.5, "bytes"), (10**30, 0.5, "bytes"), (1, 1.01, "ready"), (1, -0.1, "ready"),
     (1, NAN, "ready")],
)  # fmt: skip
def test_gradients_refused(size, ready, words):
    with pytest.raises(InputError, match=f"gradient 'w': {words}"):
        Gradient("w", size, ready)


def test_gradients_stand_in_order_of_readiness():
    with pytest.raises(InputError, match=r"'tensor 1' \(0\.4\) follows 'tensor 0' \(0\.5\)"):
        make_schedule([(4, 0.5), (4, 0.4)])
    assert make_schedule([(4, 0.5), (6, 0.5)]).total_bytes == 10
    assert GradientSchedule(()).total_bytes == 0


def test_layers_and_items_refused():
    with pytest.raises(InputError, match="layer 'conv': flops"):
        Layer("conv", -1.0, 1.0, 1)
    with pytest.raises(InputError, match="layer 'conv': parameters"):
        Layer("conv", 1.0, 1.0, -1)
    with pytest.raises(InputError, match=r"item\.seq_len"):
        Item("sequence", 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workload": ""}, "the workload's name"),
        ({"gpu": ""}, "the GPU's name"),
        ({"latencies": ()}, "at least one latency"),
        (
            {"latencies": (BatchLatency(4, 0.1, 0.1), BatchLatency(2, 0.1, 0.1))},
            "ascending batch, each once, but batch 2 follows 4",
        ),
        (
            {"latencies": (BatchLatency(4, 0.1, 0.1), BatchLatency(4, 0.1, 0.1))},
            "batch 4 follows 4",
        ),
        (
            {"latencies": (BatchLatency(1, 0.1, 0.1), BatchLatency(2, iteration_s=0.1))},
            "all be split",
        ),
        ({"min_batch": 0}, "min_batch must be"),
        ({"max_batch": 0}, "max_batch must be"),
        ({"max_batch": 4, "min_batch": 8}, "min_batch (8) is above max_batch (4)"),
        ({"spatial_std_fraction": 1.5}, "spatial_std_fraction must lie between 0 and 1"),
        ({"interval_fraction": -0.5}, "interval_fraction must lie between 0 and 1"),
        ({"input_samples_per_s_per_vcpu": 0.0}, "input_samples_per_s_per_vcpu must be above 0"),
        ({"compile_s": -1.0}, "compile_s must be 0 or more"),
    ],
)
def test_profiles_refused(change, words):
    with pytest.raises(InputError) as caught:
        replace(make_profile(), **change)
    assert words in str(caught.value)
