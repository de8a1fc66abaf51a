"""What a run has shown is carried over to the forecasts of other plans."""

import pytest

from srifty.control.learned import Learned, forecast_of, network_factor
from srifty.simulator import Simulator
from tests.builders import LinearAllreduce, Link, make_config, make_job, make_latency, make_offer

LATENCY = {"A": make_latency("A", (0.01, 0.0), (0.02, 0.0))}
SIMULATOR = Simulator(LATENCY, LinearAllreduce(Link(alpha_s=0.01, beta=1e8)))
JOB = make_job()
ONE, TWO, FOUR = (make_config((make_offer(), vms, 64 // vms)) for vms in (1, 2, 4))


def exposed_s(predictor, config=TWO):
    return forecast_of(predictor, JOB, config).exposed_exchange_s


def test_a_slow_network_is_found_again_and_carried_over():
    slow = Learned(network=5.0).predictor(SIMULATOR)
    found = network_factor(SIMULATOR, JOB, TWO, exposed_s(slow))
    assert found == pytest.approx(5.0, rel=1e-6)
    again = Learned(network=found).predictor(SIMULATOR)
    assert exposed_s(again, FOUR) == pytest.approx(exposed_s(slow, FOUR), rel=1e-6)
    assert exposed_s(again, FOUR) > exposed_s(SIMULATOR, FOUR)


def test_what_lies_inside_one_vm_is_as_before():
    slow = Learned(network=5.0).predictor(SIMULATOR)
    assert forecast_of(slow, JOB, ONE) == forecast_of(SIMULATOR, JOB, ONE)
    assert any("5.00 times as long" in line for line in slow.assumptions(JOB, (make_offer(),)))


def test_a_network_that_is_fast_enough_or_beyond_belief_teaches_nothing():
    assert network_factor(SIMULATOR, JOB, TWO, 0.0) == 1.0
    assert network_factor(SIMULATOR, JOB, TWO, 1e9) == 1.0
    assert network_factor(SIMULATOR, JOB, ONE, 0.5) == 1.0


def test_slow_gpus_compute_for_longer():
    slow = Learned(compute={"A": 1.5}).predictor(SIMULATOR)
    before, after = (forecast_of(each, JOB, TWO) for each in (SIMULATOR, slow))
    assert after.backward_s == pytest.approx(1.5 * before.backward_s)


def test_nothing_learned_changes_nothing():
    assert Learned().predictor(SIMULATOR) is SIMULATOR
