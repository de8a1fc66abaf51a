from dataclasses import replace

import numpy as np
import pytest

from srifty.compute.latency import LatencyModel
from srifty.core import BatchLatency, WorkloadProfile


def profile(*steps_s, **changes) -> WorkloadProfile:
    latencies = tuple(
        BatchLatency(8 * 2**i, iteration_s=step_s) for i, step_s in enumerate(steps_s)
    )
    return replace(WorkloadProfile("toy", "T4", latencies, 128, source="made up"), **changes)


def test_iteration_times_are_split_into_a_third_and_two_thirds():
    model = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.8))
    at = np.array([16.0])
    assert model.step_s(at) == pytest.approx(0.2)
    assert model.backward.predict(at) == pytest.approx(2 * model.forward.predict(at))
    assert model.optimizer_s == 0
    assert any("only iteration times" in clause for clause in model.assumptions)


def test_split_times_are_kept_apart_and_the_optimizer_is_a_constant():
    latencies = tuple(
        BatchLatency(b, forward_s=0.01 * b, backward_s=0.03 * b, optimizer_s=0.004, std_s=0.002 * b)
        for b in (1, 2, 4, 8)
    )
    model = LatencyModel.fit(WorkloadProfile("toy", "T4", latencies, 8, spatial_std_fraction=0.03))
    assert model.forward.predict(np.array([4.0])) == pytest.approx(0.04)
    assert model.backward.predict(np.array([4.0])) == pytest.approx(0.12)
    assert model.optimizer_s == 0.004
    assert model.step_std_fraction == pytest.approx(0.05, rel=0.1)
    assert model.spatial_std_fraction == 0.03
    assert model.total_std_fraction == pytest.approx(
        np.hypot(model.step_std_fraction, model.spatial_std_fraction)
    )


def test_estimated_latencies_carry_at_least_thirty_percent():
    measured = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.8))
    estimated = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.8, estimated=True))
    wide = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.8, estimated=True, interval_fraction=0.6))
    assert measured.model_std_fraction < 0.05
    assert estimated.model_std_fraction == pytest.approx(0.3 / 1.645)
    assert wide.model_std_fraction == pytest.approx(0.6 / 1.645)


def test_a_useful_batch_needs_measurements_below_it():
    proportional = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.8))
    assert proportional.knee_batch == 1  # nothing shows a floor
    assert proportional.measured_batches == (8, 64)
    floor = LatencyModel.fit(profile(0.1, 0.1, 0.11, 0.2))
    assert floor.knee_batch > 8


def test_what_looks_wrong_is_said():
    falling = LatencyModel.fit(profile(0.1, 0.2, 0.4, 0.008))
    assert any("check the measurements" in clause for clause in falling.assumptions)
    one = LatencyModel.fit(profile(0.1))
    assert any("one batch size" in clause for clause in one.assumptions)
