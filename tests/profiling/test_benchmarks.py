"""The benchmarks run, small; their figures come from the documented commands."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from benchmarks import profile_accuracy, profile_gpu
from benchmarks.profile_models import FACTORIES

from srifty.profiling.device import CpuDevice
from srifty.profiling.steps import StepRunner


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_every_model_trains(name):
    workload = FACTORIES[name]()
    runner = StepRunner(workload, CpuDevice())
    times = runner.times(runner.step(workload.batch_of(2)))
    assert times.step_s > 0
    assert any(p.grad is not None for p in workload.model.parameters())


def test_the_accuracy_of_one_model_on_a_small_grid():
    score = profile_accuracy.score("vgg", CpuDevice(), rounds=1, most=8)
    assert len(score.probes) == 4
    assert (score.probes[0], score.probes[-1]) == (1, 8)
    # No set of four is better than the best of all sets, whatever the clock said.
    assert (score.each <= score.best + 1e-9).all()
    assert (score.each <= score.placed + 1e-9).all()
    assert score.best.mean() <= score.placed.mean() + 1e-9
    assert "| vgg | 1, " in profile_accuracy.page([score], "wall", 1, 1.0)


@pytest.mark.parametrize("case", profile_gpu.TINY, ids=lambda case: case.name)
def test_the_gpu_benchmark_in_its_tiny_mode(case):
    result = profile_gpu.measure(case, CpuDevice(), 6, 0.0)
    assert len(result.probes) == 4
    assert math.isfinite(result.error_percent)
    assert 0 <= result.ready <= 1
    assert case.name in profile_gpu.page([result], CpuDevice())


def test_only_adapters_are_trained_in_the_adapted_model():
    model = profile_gpu.TINY[1].make().model
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained
    assert all(".down." in name or ".up." in name for name in trained)


def test_resnet50_is_resnet_50():
    with torch.device("meta"):
        model = profile_gpu.FULL[0].make().model
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
