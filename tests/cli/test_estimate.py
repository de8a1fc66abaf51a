"""Estimates from a real model to profiles."""

import pytest

pytest.importorskip("torch")

from srifty.cli._estimate import estimate_for
from srifty.core.profile import BatchLatency, WorkloadProfile
from tests.profiling.counted_models import Encoder, tokens

ASKED = ("T4", "A10G", "H100")


def test_a_model_gets_a_profile_for_each_gpu():
    profiles = estimate_for(tokens(Encoder(), unit="sequence", seq_len=16), ASKED)
    assert [profile.gpu for profile in profiles] == list(ASKED)
    for profile in profiles:
        assert profile.estimated
        assert profile.item.seq_len == 16
        assert profile.gradients is not None
        assert profile.gradients.total_bytes == 4 * sum(p.parameters for p in profile.layers)


def test_a_gpu_at_hand_is_the_scale_and_a_cpu_is_not():
    def measured(gpu):
        steps = tuple(BatchLatency(batch=b, iteration_s=0.001 * b) for b in (1, 8, 64))
        return WorkloadProfile("Encoder", gpu, steps, 64, precision="bf16")

    workload = tokens(Encoder())
    (scaled,) = estimate_for(workload, ["A100-40GB"], measured("H100"))
    assert scaled.precision == "bf16"
    assert "H100" in scaled.source
    assert scaled.latencies[0].step_s > 0.001
    (counted,) = estimate_for(workload, ["A100-40GB"], measured("Intel Xeon"))
    assert counted.precision == "fp32"
    assert any("Intel Xeon" in note for note in counted.notes)
