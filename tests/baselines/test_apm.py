import numpy as np
import pytest

from srifty.baselines import Apm, ComputeOnly, linear_latency
from srifty.core import BatchLatency, WorkloadProfile
from srifty.simulator import ConfigTable
from tests.builders import (
    LinearAllreduce,
    Link,
    make_config,
    make_job,
    make_latency,
    make_offer,
    make_profile,
    make_type,
)

OFFER = make_offer(make_type(gpus=4))
LATENCY = {"A": make_latency()}  # 30 ms + 3 ms a sample


def configs(*groups):
    return ConfigTable.from_configs([make_config(*each) for each in groups])


def test_the_longer_of_computation_and_one_allreduce_counts():
    job = make_job(make_profile(gradients=((100_000_000, 0.5), (100_000_000, 1.0))))
    apm = Apm(LATENCY, LinearAllreduce(Link(alpha_s=0.01, beta=1e9)))
    table = apm.predict(job, configs([(OFFER, 1, 4)], [(OFFER, 1, 400)], [(OFFER, 2, 8)]))
    np.testing.assert_allclose(table.mean_s, [0.21, 0.33, 0.21])
    np.testing.assert_allclose(table.exchange_s, 0.21)
    np.testing.assert_allclose(table.exposed_exchange_s, [0.177, 0.0, 0.174])
    np.testing.assert_allclose(table.forward_s + table.backward_s, [0.033, 0.33, 0.036])
    assert not table.std_s.any()


def test_the_slowest_worker_counts_and_one_worker_exchanges_nothing():
    slow = make_offer(make_type("b1.large", gpu="B"))
    latency = LATENCY | {"B": make_latency("B", (0.02, 0.002), (0.04, 0.004))}
    apm = Apm(latency, LinearAllreduce())
    job = make_job(make_profile(), make_profile("B"))
    single = make_offer(make_type())
    table = apm.predict(job, configs([(single, 1, 8)], [(single, 1, 8), (slow, 1, 8)]))
    np.testing.assert_allclose(table.mean_s, [0.054, 0.108])
    assert table.exchange_s[0] == 0.0


def test_without_gradients_only_computation_is_left():
    job = make_job(make_profile(gradients=None))
    some = configs([(OFFER, 2, 8)])
    apm = Apm(LATENCY, LinearAllreduce()).predict(job, some)
    alone = ComputeOnly(LATENCY).predict(job, some)
    np.testing.assert_array_equal(apm.mean_s, alone.mean_s)


def test_computation_alone_ignores_the_exchange():
    job = make_job(make_profile(gradients=((10**9, 1.0),)))
    table = ComputeOnly(LATENCY).predict(job, configs([(OFFER, 8, 40)]))
    np.testing.assert_allclose(table.mean_s, [0.06])
    assert ComputeOnly(LATENCY).assumptions(job, [OFFER])


def profile(*steps):
    latencies = tuple(BatchLatency(batch, iteration_s=step) for batch, step in steps)
    return WorkloadProfile("toy", "A", latencies, max_batch=512)


def step_s(model, batch):
    return float(model.step_s(np.array([float(batch)]))[0])


def test_a_line_is_met_and_a_bend_is_not():
    straight = linear_latency(profile((4, 0.14), (8, 0.18), (64, 0.74)))
    assert step_s(straight, 32) == pytest.approx(0.42)
    bent = linear_latency(profile((4, 0.2), (8, 0.2), (16, 0.2), (64, 0.74)))
    assert abs(step_s(bent, 16) / 0.2 - 1) > 0.1
    rises = [step_s(bent, 2 * batch) - step_s(bent, batch) for batch in (16, 32)]
    assert rises[1] == pytest.approx(2 * rises[0])


@pytest.mark.parametrize("steps", [((4, 0.4), (64, 0.2)), ((4, 0.1), (8, 0.4)), ((4, 0.1),)])
def test_odd_measurements_still_give_a_usable_line(steps):
    model = linear_latency(profile(*steps))
    assert step_s(model, 1) > 0
    assert step_s(model, 128) >= step_s(model, 1)


def test_a_split_profile_keeps_its_halves_apart():
    rows = tuple(
        BatchLatency(b, forward_s=0.01 + 0.001 * b, backward_s=0.02 + 0.003 * b) for b in (2, 8)
    )
    model = linear_latency(WorkloadProfile("toy", "A", rows, max_batch=64))
    assert float(model.forward.predict(4)) == pytest.approx(0.014)
    assert float(model.backward.predict(4)) == pytest.approx(0.032)


def test_assumptions_name_the_model_and_the_link():
    words = Apm(LATENCY, LinearAllreduce()).assumptions(make_job(), [OFFER])
    assert "one line" in words[0]
    assert "made up" in words[1]
