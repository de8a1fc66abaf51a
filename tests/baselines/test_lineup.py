"""All methods on one job: ours is never beaten by a choice that keeps the limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srifty.baselines import Rivals
from srifty.core import GpuModel, Layer, Limits, Objective
from srifty.planner import plan
from srifty.simulator import ConfigTable, forecast_jobs
from srifty.units import GIB
from tests.planner.conftest import make_market

METHODS = [
    "srifty", "anchored", "apm", "paleo", "oracle-bo", "cgf", "fgf", "cheapest-homogeneous",
]  # fmt: skip
GPUS = {
    name: GpuModel(name, "made up", 16 * GIB, 3e11, {"fp32": flops}, "made up")
    for name, flops in (("Slow", 1e12), ("Fast", 5e12), ("Twin", 1.2e12))
}
LAYERS = (Layer("all", 2e9, 1e6, 10_000_000),)


@pytest.fixture(scope="module")
def market():
    return make_market()


def rivals_of(market, *, layers=LAYERS, **changes):
    job = market.job(64, **changes)
    job = replace(job, profiles=tuple(replace(p, layers=layers) for p in job.profiles))
    return Rivals(job, market.offers, market.simulator, market.ranges, GPUS)


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize(
    "limits", [Limits(), Limits(deadline_s=400.0, budget_usd=0.8, confidence=0.9)]
)
def test_ours_is_the_best_of_all_within_the_limits(market, objective, limits):
    rivals = rivals_of(market, objective=objective, limits=limits)
    calls = []
    choices = rivals.line_up(lambda done, total: calls.append((done, total)))
    assert [choice.method for choice in choices] == METHODS
    assert calls[-1] == (8, 8)
    ours = choices[0]
    expected = plan(rivals.job, market.offers, market.simulator, market.ranges).plan
    assert ours.config == expected.config
    assert ours.own == ours.simulated
    for choice in choices:
        assert (choice.config is None) == bool(choice.reason)
        if choice.config is None:
            continue
        assert choice.config.samples == 64
        if choice.meets_limits:
            assert choice.value(objective) >= ours.value(objective) * (1 - 1e-9)


def test_every_choice_is_judged_by_our_simulator(market):
    limits = Limits(deadline_s=400.0, budget_usd=0.8, confidence=0.9)
    rivals = rivals_of(market, limits=limits)
    for choice in rivals.line_up():
        if choice.config is None:
            continue
        table = ConfigTable.from_configs([choice.config])
        iterations = market.simulator.predict(rivals.job, table)
        jobs = forecast_jobs(rivals.job, table, iterations)
        assert choice.simulated == jobs.forecast(0, iterations.row(0))
        needed_s = float(jobs.time_quantile_s(0.9)[0])
        kept = needed_s <= 400.0 and float(jobs.cost_usd(jobs.time_quantile_s(0.9))[0]) <= 0.8
        assert choice.meets_limits == kept


def test_forecasts_of_their_own_are_theirs(market):
    choices = {choice.method: choice for choice in rivals_of(market).line_up()}
    assert choices["apm"].own != choices["apm"].simulated
    assert choices["apm"].own.time_s.std == 0
    probed = choices["oracle-bo"]
    assert probed.own.time_s.mean == pytest.approx(probed.simulated.time_s.mean)
    for rule in ("cgf", "fgf", "cheapest-homogeneous"):
        assert choices[rule].own is None
        assert choices[rule].simulated is not None


def test_homogeneous_methods_use_one_type(market):
    choices = {choice.method: choice for choice in rivals_of(market).line_up()}
    for name in ("oracle-bo", "cheapest-homogeneous"):
        groups = choices[name].config.groups
        assert len({group.offer.instance_type for group in groups}) == 1


def test_unknown_layers_leave_paleo_out_with_its_reason(market):
    paleo = next(c for c in rivals_of(market, layers=()).line_up() if c.method == "paleo")
    assert paleo.config is None
    assert "unknown in the profile" in paleo.reason
    assert paleo.value(Objective.TIME) is None


def test_a_batch_that_nothing_deals_leaves_reasons():
    market = make_market((0, 0, 2))  # its only type needs two samples a GPU
    rivals = replace(rivals_of(market), job=replace(rivals_of(market).job, global_batch=1))
    for choice in rivals.line_up():
        assert choice.config is None
        assert choice.reason
        assert not choice.meets_limits
