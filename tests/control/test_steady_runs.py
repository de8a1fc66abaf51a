"""Whole runs on a simulated clock: steady ones are left alone, slow ones are acted upon in time."""

import numpy as np
import pytest

from srifty.control import PolicyRule
from srifty.core.events import Cause

from .runs import LARGE, SteadyRun, candidate, job, noisy, offer

RULE = PolicyRule()
PLAN = candidate((offer(), 4), iteration_s=1.0)
DEARER = candidate((offer(LARGE, 5.0), 4), iteration_s=0.5)


def run_of(factor: float, iterations: int = 3600) -> SteadyRun:
    """A job whose deadline is `factor` times what its plan takes."""
    whole = job(iterations, deadline_s=factor * (150.0 + iterations * PLAN.iteration_s))
    return SteadyRun(whole, PLAN, (DEARER,), RULE)


def test_at_most_one_of_a_hundred_steady_jobs_is_replanned():
    rng = np.random.default_rng(11)
    replanned = 0
    for seed in range(100):
        factor, noise = rng.uniform(1.05, 3.0), rng.uniform(0.02, 0.10)
        found = run_of(factor, iterations=2000).moves(noisy(1.0, noise, seed), report_s=30.0)
        replanned += bool(found)
    assert replanned <= 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("factor", [1.05, 1.15])
def test_a_lasting_slow_down_is_acted_on_within_one_and_a_half_windows(seed, factor):
    slow_from_s = 1200.0 + 37.0 * seed
    steady = noisy(1.0, 0.05, seed)

    def iteration_s(now_s: float) -> float:
        return steady(now_s) / (0.7 if now_s >= slow_from_s else 1.0)

    found = run_of(factor).moves(iteration_s, until_s=slow_from_s + 900.0)
    assert found
    first = found[0]
    assert slow_from_s < first.at_s <= slow_from_s + 1.5 * RULE.pace.window_s
    assert first.cause is Cause.LIMIT
    assert first.config == DEARER.config
    assert dict(first.numbers)["pace_per_s"] < 1.0


def test_a_slow_minute_is_forgiven():
    def iteration_s(now_s: float) -> float:
        return 1.6 if 1200.0 <= now_s < 1260.0 else 1.0

    assert not run_of(1.15).moves(iteration_s)


def test_a_slow_down_that_the_deadline_can_bear_moves_nothing():
    assert not run_of(2.0).moves(lambda _now_s: 1 / 0.7)
