"""Curves over the number of VMs, against a search by brute force."""

from __future__ import annotations

import pytest

from srifty.core.job import BatchRule, Objective
from srifty.planner import scaling_curves
from srifty.simulator import ConfigTable, forecast_jobs

from .brute_force import all_configs
from .conftest import make_market


@pytest.mark.parametrize("objective", list(Objective))
def test_each_point_is_the_best_of_its_number_of_vms(objective):
    market = make_market((3, 1, 2), (8, 16, 8))
    job = market.job(16, batch_rule=BatchRule.ANY, objective=objective)
    kinds = [offer.instance_type for offer in market.offers]
    curves = scaling_curves(job, market.offers, market.simulator, market.ranges, kinds)
    assert [curve.instance_type for curve in curves] == list(
        dict.fromkeys(kind.name for kind in kinds)
    )
    for curve in curves:
        own = [
            config
            for config in all_configs(job, market.offers, market.ranges)
            if {group.offer.instance_type.name for group in config.groups} == {curve.instance_type}
        ]
        table = ConfigTable.from_configs(own)
        jobs = forecast_jobs(job, table, market.simulator.predict(job, table))
        values = jobs.time_mean_s if objective is Objective.TIME else jobs.cost_mean_usd
        best: dict[int, float] = {}
        for config, value in zip(own, values, strict=True):
            best[config.vms] = min(best.get(config.vms, float("inf")), float(value))
        found = {
            point.config.vms: (point.time_s if objective is Objective.TIME else point.cost_usd).mean
            for point in curve.points
        }
        assert list(found) == sorted(best)
        assert found == pytest.approx(best)


def test_a_band_holds_its_mean_and_what_is_faster_costs_less_time():
    market = make_market((3, 1, 2), (8, 16, 8))
    job = market.job(16)
    kinds = [market.offers[0].instance_type]
    (curve,) = scaling_curves(job, market.offers, market.simulator, market.ranges, kinds)
    for point in curve.points:
        for band in (point.samples_per_s, point.time_s, point.cost_usd):
            assert 0 < band.p10 <= band.mean <= band.p90
        iteration = market.simulator.predict(job, ConfigTable.from_configs([point.config])).row(0)
        assert point.samples_per_s.mean == pytest.approx(16 / iteration.mean_s)
        assert point.config.samples == 16
        assert 0 <= point.success_probability <= 1


def test_a_type_that_cannot_do_the_job_alone_has_no_curve():
    market = make_market((1, 1, 0), (8, 16, 8))
    kinds = [offer.instance_type for offer in market.offers]
    curves = scaling_curves(market.job(16), [], market.simulator, market.ranges, kinds)
    assert curves == ()
