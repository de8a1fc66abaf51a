from dataclasses import replace

import numpy as np
import pytest

from srifty.simulator import SIM, ConfigTable, IterationLaw, Noise, Simulator
from tests.builders import (
    PAPER_SYNC,
    LinearAllreduce,
    Link,
    make_config,
    make_job,
    make_latency,
    make_offer,
    make_profile,
    make_type,
)

A = make_offer(make_type("a1.x", "A", gpus=2))
B = make_offer(make_type("b1.x", "B"))
LATENCY = {
    "A": make_latency("A", (0.01, 0.001), (0.02, 0.002), step_std=0.03, spatial_std=0.04),
    "B": make_latency("B", (0.02, 0.001), (0.01, 0.003), step_std=0.02),
}
SIMULATOR = Simulator(LATENCY, LinearAllreduce(Link(1e-3, 1e9)), law=IterationLaw.PAPER)
JOB = make_job(make_profile("A", [(8_000_000, 0.3), (2_000_000, 1.0)]), sync=PAPER_SYNC)


def test_counts_and_batches_make_the_configuration():
    value = SIM((SIMULATOR, JOB), {A: 2, B: 3}, {A: 32, B: 16}, 500)
    table = ConfigTable.from_configs([make_config((A, 2, 32), (B, 3, 16))])
    drawn = replace(SIMULATOR, noise=Noise.SAMPLED, draws=500)
    assert value == drawn.predict(JOB, table).mean_s[0]
    assert value == pytest.approx(SIMULATOR.predict(JOB, table).mean_s[0], rel=0.01)


def test_it_is_max_f_plus_the_larger_of_max_b_and_the_exchange():
    # Every worker's forward and backward drawn by itself, the exchange counted by hand: the large
    # message (own rate 8 MB / 9 ms of 1 GB/s) is done before the small one starts.
    rng = np.random.default_rng(0)
    draws = 40_000

    def slowest(a, b):
        times = [
            mean * (1 + std * rng.standard_normal((draws, workers)))
            for mean, std, workers in ((a, 0.05, 4), (b, 0.02, 3))
        ]
        return np.concatenate(times, axis=1).max(axis=1).mean()

    forward_s = slowest(0.01 + 0.016, 0.02 + 0.016)
    backward_s = slowest(0.02 + 0.032, 0.01 + 0.048)
    assert 0.3 * backward_s + 0.009 < backward_s
    value = SIM((SIMULATOR, JOB), {A: 2, B: 3}, {A: 32, B: 16}, 40_000)
    assert value == pytest.approx(forward_s + backward_s + 0.003, rel=2e-3)


def test_an_offer_that_is_not_counted_needs_no_batch():
    both = SIM((SIMULATOR, JOB), {A: 2, B: 0}, {A: 32}, 100)
    assert both == SIM((SIMULATOR, JOB), {A: 2}, {A: 32}, 100)


def test_a_vm_with_fewer_samples_than_gpus_leaves_gpus_idle():
    one = SIM((replace(SIMULATOR, latency={"A": make_latency()}), JOB), {A: 1}, {A: 1}, 10)
    assert one == pytest.approx(0.011 + 0.022, rel=1e-12)
