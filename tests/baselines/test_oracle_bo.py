from dataclasses import replace

import numpy as np
import pytest

from srifty.baselines import oracle_bo
from srifty.core import Limits, Objective, Overheads
from srifty.simulator import ConfigTable
from tests.builders import make_config, make_job, make_offer, make_type

A = make_offer(make_type("a1.small", "A"), 1.0)
B = make_offer(make_type("b1.small", "B"), 3.0)


class Truth:
    """Iteration times by a rule; counts the probes."""

    def __init__(self, rule):
        self.rule = rule
        self.probed = []

    def __call__(self, configs):
        found = [configs.config(row) for row in range(len(configs))]
        self.probed += found
        return np.array([self.rule(config) for config in found])


def curve(config):
    """Shortest at 24 VMs of A, at 12 of B."""
    n = config.vms
    return 2.4 / n + 2.4 / 24**2 * n if config.groups[0].offer == A else 1.5 / n + n * 1.5 / 144


def configs_of(*offers, most=48):
    return ConfigTable.from_configs(
        [make_config((offer, n, 8)) for offer in offers for n in range(1, most + 1)]
    )


def job_for(objective=Objective.TIME, limits=None):
    job = make_job(limits=limits, overheads=Overheads(launch_s=0.0))
    return replace(job, objective=objective)


@pytest.mark.parametrize("seed", range(8))
def test_a_third_is_probed_and_a_smooth_optimum_found(seed):
    truth = Truth(curve)
    configs = configs_of(A)
    found = oracle_bo(job_for(), configs, truth, seed=seed)
    assert found.probes == len(truth.probed) == 16
    assert len({config.vms for config in truth.probed}) == 16
    assert found.iteration_s == curve(configs.config(found.row))
    assert found.iteration_s <= min(map(curve, truth.probed))
    assert found.iteration_s < 1.03 * 0.2


def test_probes_are_split_equally_among_the_types():
    truth = Truth(curve)
    configs = configs_of(A, B)
    found = oracle_bo(job_for(), configs, truth)
    of_a = [config for config in truth.probed if config.groups[0].offer == A]
    assert len(of_a) == len(truth.probed) - len(of_a) == 16
    assert configs.config(found.row).groups[0].offer == A
    cheapest = oracle_bo(job_for(Objective.COST), configs, Truth(curve))
    assert configs.config(cheapest.row).vms <= 3


def test_limits_hold_by_what_was_probed():
    configs = configs_of(A)
    job = job_for(limits=Limits(budget_usd=1.0))  # about 9 VMs
    found = oracle_bo(job, configs, Truth(curve))
    chosen = configs.config(found.row)
    seconds = 1000 * curve(chosen)
    assert chosen.vms * max(seconds, 60) / 3600 <= 1.0
    fastest = min(
        curve(config)
        for config in map(configs.config, range(len(configs)))
        if config.vms * max(1000 * curve(config), 60) / 3600 <= 1.0
    )
    assert found.iteration_s < 1.1 * fastest


def test_no_probe_within_the_limits_makes_no_choice():
    found = oracle_bo(job_for(limits=Limits(deadline_s=1.0)), configs_of(A), Truth(curve))
    assert found.row is None
    assert found.probes == 16
    nothing = oracle_bo(job_for(), ConfigTable.from_configs([]), Truth(curve))
    assert (nothing.row, nothing.probes) == (None, 0)


def test_one_configuration_is_probed_all_the_same():
    found = oracle_bo(job_for(), configs_of(A, most=1), Truth(curve))
    assert (found.row, found.probes) == (0, 1)


def test_the_seed_decides_the_first_probes():
    first, again, other = (Truth(curve) for _ in range(3))
    for truth, seed in ((first, 1), (again, 1), (other, 2)):
        oracle_bo(job_for(), configs_of(A), truth, seed=seed)
    assert first.probed == again.probed != other.probed
