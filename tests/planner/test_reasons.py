"""No plan: the border of what is feasible equals the relaxations that the reasons print."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srifty.core import Limits, ReasonKind, Verdict
from srifty.core.job import BatchRule
from srifty.planner.reasons import ceil_duration, ceil_usd
from srifty.units import parse_duration_s

from .conftest import make_market


def nearest_of(result, kind):
    return [r for r in result.reasons if r.kind is kind and r.nearest is not None]


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("rule", list(BatchRule))
def test_border_on_a_grid_equals_the_printed_relaxations(confidence, rule):
    market = make_market((3, 1, 2))
    base = market.job(64, batch_rule=rule)
    seen = {True: 0, False: 0}
    points = 7 if rule is BatchRule.POWER_OF_TWO else 4
    for deadline in np.geomspace(90, 1200, points):
        for budget in np.geomspace(0.1, 3.0, points):
            limits = Limits(float(deadline), float(budget), confidence)
            result = market.plan(replace(base, limits=limits))
            seen[result.verdict.is_feasible] += 1
            if result.verdict.is_feasible:
                continue
            assert result.verdict is Verdict.LIMITS_TOO_TIGHT
            assert result.nearest is not None
            both = [r for r in result.reasons if r.subject == "with budget"]
            if both:
                needed_budget = nearest_of(result, ReasonKind.BUDGET)[0].nearest
                relaxed = Limits(both[0].nearest, needed_budget, confidence)
                assert market.plan(replace(base, limits=relaxed)).plan is not None
                continue
            for reason in nearest_of(result, ReasonKind.DEADLINE):
                enough = replace(limits, deadline_s=reason.nearest)
                short = replace(limits, deadline_s=reason.nearest * (1 - 1e-6))
                assert market.plan(replace(base, limits=enough)).plan is not None
                assert market.plan(replace(base, limits=short)).plan is None
            for reason in nearest_of(result, ReasonKind.BUDGET):
                enough = replace(limits, budget_usd=reason.nearest)
                short = replace(limits, budget_usd=reason.nearest * (1 - 1e-6))
                assert market.plan(replace(base, limits=enough)).plan is not None
                assert market.plan(replace(base, limits=short)).plan is None
    assert seen[True] > 3
    assert seen[False] > 3


def test_a_deadline_within_the_launch_is_told_at_once(market):
    result = market.plan(market.job(64, limits=Limits(deadline_s=60.0)))
    assert "launching alone takes" in result.reasons[0].message


def test_confidence_reason_names_odds_that_can_be_had():
    market = make_market((3, 1, 2))
    sure = market.job(64, limits=Limits(None, None, 0.9))
    fastest = min(p.forecast.time_s.mean for p in market.plan(sure).front)
    limits = Limits(deadline_s=fastest * 1.001, confidence=0.99)
    result = market.plan(market.job(64, limits=limits))
    (reason,) = nearest_of(result, ReasonKind.CONFIDENCE)
    assert result.nearest.forecast.success_probability == pytest.approx(reason.nearest)
    lower = replace(limits, confidence=reason.nearest - 1e-6)
    assert market.plan(market.job(64, limits=lower)).plan is not None


def test_more_quota_that_would_do_is_the_least_that_does():
    market = make_market((2, 0, 0), (32, 1, 2))
    job = market.job(64, limits=Limits(deadline_s=400.0))
    result = market.plan(job)
    (reason,) = nearest_of(result, ReasonKind.QUOTA)
    vms = int(reason.nearest)
    offer = market.offers[0]
    assert market.plan(job, (replace(offer, quota=vms),)).plan is not None
    assert market.plan(job, (replace(offer, quota=vms - 1),)).plan is None


def test_memory_reason_names_what_fits():
    market = make_market((2, 0, 0), (8, 1, 2))
    result = market.plan(market.job(64, limits=Limits(deadline_s=101.0)))
    (reason,) = nearest_of(result, ReasonKind.MEMORY)
    assert reason.nearest == 16


def test_forecast_reason_says_how_wrong_the_forecast_must_be():
    market = make_market((3, 1, 2))
    limits = Limits(deadline_s=140.0, confidence=0.5)
    result = market.plan(market.job(64, limits=limits))
    (reason,) = nearest_of(result, ReasonKind.FORECAST)
    iterations_s = result.nearest.forecast.time_s.mean - 100.0
    assert 100.0 + iterations_s * (1 - reason.nearest) == pytest.approx(140.0)


@pytest.mark.parametrize("seconds", [59.01, 419.3, 3600.0, 3725.0, 100_000.5])
def test_shown_durations_never_fall_short(seconds):
    words = ceil_duration(seconds)
    compact = words.replace(" min", "m").replace(" ", "")
    assert parse_duration_s(compact) >= seconds * (1 - 1e-6)


@pytest.mark.parametrize("usd", [0.00123, 0.0999, 2.501, 999.991, 12_345.1])
def test_shown_amounts_never_fall_short(usd):
    assert float(ceil_usd(usd).strip("$").replace(",", "")) >= usd
