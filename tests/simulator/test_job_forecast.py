import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from srifty.core import IterationForecast, Limits, Location, Market, Offer, Overheads
from srifty.core.billing import BillingRule
from srifty.simulator import ConfigTable, ForecastTable, forecast_jobs
from tests.builders import make_config, make_job, make_offer, make_profile, make_type

NO_OVERHEADS = Overheads(launch_s=0.0)
CHEAP = make_offer(make_type("a1.x"), usd_per_hour=1.2)
DEAR = make_offer(make_type("b1.x", "B", gpus=4), usd_per_hour=3.0, market=Market.SPOT)
CONFIG = make_config((CHEAP, 2, 8), (DEAR, 1, 32))  # 2 · 1.2 + 3.0 = 5.4 dollars an hour


def iterations(mean_s=0.5, step=0.04, allocation=0.02, gpu=0.01, model=0.03):
    values = dict.fromkeys(ForecastTable.__dataclass_fields__, 0.0)
    values |= {
        "mean_s": mean_s,
        "step_std_s": step,
        "allocation_std_s": allocation,
        "gpu_std_s": gpu,
        "model_std_s": model,
    }
    return ForecastTable(**{name: np.array([value]) for name, value in values.items()})


CERTAIN = iterations(step=0, allocation=0, gpu=0, model=0)


def run(job, table=None, config=CONFIG):
    return forecast_jobs(job, ConfigTable.from_configs([config]), table or iterations())


def test_mean_and_variance_by_hand():
    overheads = Overheads(launch_s=150.0, setup_s=20.0, restore_s=5.0)
    jobs = run(make_job(iterations=1000, overheads=overheads))
    assert jobs.time_mean_s[0] == pytest.approx(150 + 20 + 1000 * 0.5, rel=1e-14)
    # Var = N σ_step² + N² (σ_allocation² + σ_gpu² + σ_model²)
    variance = 1000 * 0.04**2 + 1000**2 * (0.02**2 + 0.01**2 + 0.03**2)
    assert jobs.time_std_s[0] == pytest.approx(math.sqrt(variance), rel=1e-14)
    assert jobs.usd_per_hour[0] == pytest.approx(5.4)
    # Billed from running to stop.
    assert jobs.cost_mean_usd[0] == pytest.approx(5.4 * 520 / 3600, rel=1e-14)


def test_only_the_noise_from_step_to_step_averages_out():
    def relative(table, count):
        jobs = run(make_job(iterations=count, overheads=NO_OVERHEADS), table)
        return float(jobs.time_std_s[0] / jobs.time_mean_s[0])

    noisy = iterations(allocation=0, gpu=0, model=0)
    assert relative(noisy, 10_000) == pytest.approx(relative(noisy, 100) / 10, rel=1e-12)
    uncertain = iterations(step=0)
    assert relative(uncertain, 10_000) == pytest.approx(relative(uncertain, 100), rel=1e-12)


def test_variance_agrees_with_simulated_jobs():
    # Every job draws its persistent factors once and its noise every step.
    count, jobs = 200, 40_000
    rng = np.random.default_rng(0)
    persistent = sum(rng.normal(0, std, jobs) for std in (0.02, 0.01, 0.03))
    noise = rng.normal(0, 0.04, (jobs, count)).sum(axis=1)
    drawn = count * (0.5 + persistent) + noise
    table = run(make_job(iterations=count, overheads=NO_OVERHEADS))
    assert table.time_mean_s[0] == pytest.approx(drawn.mean(), rel=1e-3)
    assert table.time_std_s[0] == pytest.approx(drawn.std(), rel=0.02)
    for probability in (0.1, 0.5, 0.9, 0.95):
        kept = (drawn <= table.time_quantile_s(probability)[0]).mean()
        assert kept == pytest.approx(probability, abs=0.01)


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.9, 0.95, 0.999])
def test_quantiles_are_those_of_a_normal(probability):
    jobs = run(make_job())
    law = stats.norm(jobs.time_mean_s[0], jobs.time_std_s[0])
    assert jobs.time_quantile_s(probability)[0] == pytest.approx(law.ppf(probability), rel=1e-12)


def test_a_minute_is_the_least_that_is_billed():
    jobs = run(make_job(iterations=10, overheads=Overheads(launch_s=100.0)), CERTAIN)
    assert jobs.time_mean_s[0] == 105.0
    assert jobs.cost_mean_usd[0] == pytest.approx(5.4 / 60, rel=1e-14)
    times = np.array([150.0])
    assert jobs.cost_usd(times)[0] == pytest.approx(5.4 / 60, rel=1e-14)
    assert jobs.cost_usd(times + 70)[0] == pytest.approx(5.4 * 120 / 3600, rel=1e-14)


def test_launch_counts_for_the_deadline_but_is_not_billed():
    slow = run(make_job(overheads=Overheads(launch_s=600.0)), CERTAIN)
    fast = run(make_job(overheads=NO_OVERHEADS), CERTAIN)
    assert slow.time_mean_s[0] == fast.time_mean_s[0] + 600
    assert slow.cost_mean_usd[0] == fast.cost_mean_usd[0]


def test_storage_is_paid_beside_the_vms():
    jobs = run(make_job(extra_usd_per_hour=0.6), CERTAIN)
    assert jobs.usd_per_hour[0] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("count", "evaluations", "checkpoints"),
    [(99, 0, 1), (100, 1, 2), (1000, 10, 20), (1049, 10, 20), (1050, 10, 21)],
)
def test_evaluations_and_checkpoints_are_counted(count, evaluations, checkpoints):
    overheads = Overheads(
        launch_s=0.0,
        evaluation_every=100,
        evaluation_s=7.0,
        checkpoint_every=50,
        checkpoint_s=3.0,
    )
    jobs = run(make_job(iterations=count, overheads=overheads), CERTAIN)
    expected = count * 0.5 + evaluations * 7.0 + checkpoints * 3.0
    assert jobs.time_mean_s[0] == pytest.approx(expected, rel=1e-14)
    assert jobs.cost_mean_usd[0] == pytest.approx(5.4 * max(expected, 60.0) / 3600, rel=1e-14)


LIMITS = {
    "deadline binds": Limits(deadline_s=520.0, budget_usd=9.0),
    "budget binds": Limits(deadline_s=900.0, budget_usd=0.75),
    "both near": Limits(deadline_s=660.0, budget_usd=0.76),
    "deadline alone": Limits(deadline_s=655.0),
    "budget alone": Limits(budget_usd=0.80),
}


@pytest.mark.parametrize("case", LIMITS, ids=list(LIMITS))
def test_the_chance_of_both_limits_agrees_with_drawn_jobs(case):
    limits = LIMITS[case]
    jobs = run(make_job(iterations=1000, limits=limits, overheads=Overheads(launch_s=150.0)))
    draws = 1_000_000
    time_s = np.random.default_rng(1).normal(650.0, jobs.time_std_s[0], draws)
    cost_usd = 5.4 / 3600 * np.maximum(time_s - 150.0, 60.0)
    held = np.ones(draws, dtype=bool)
    if limits.deadline_s is not None:
        held &= time_s <= limits.deadline_s
    if limits.budget_usd is not None:
        held &= cost_usd <= limits.budget_usd
    assert jobs.success_probability[0] == pytest.approx(held.mean(), abs=0.002)


def test_without_limits_success_is_certain():
    assert run(make_job()).success_probability[0] == 1.0


def test_a_certain_time_makes_a_step_function():
    def chance(deadline_s):
        limits = Limits(deadline_s=deadline_s)
        return run(make_job(limits=limits, overheads=NO_OVERHEADS), CERTAIN).success_probability[0]

    assert [chance(499.9), chance(500.0), chance(500.1)] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("table", [CERTAIN, iterations()])
def test_a_budget_below_the_least_bill_can_never_be_kept(table):
    jobs = run(make_job(limits=Limits(budget_usd=0.99 * 5.4 / 60)), table)
    assert jobs.success_probability[0] == 0.0
    exactly = run(
        make_job(iterations=1, limits=Limits(budget_usd=5.4 / 60)), iterations(0.5, 0, 0, 0, 0)
    )
    assert exactly.success_probability[0] == 1.0


def test_owned_machines_keep_any_budget():
    free = make_offer(make_type("own1"), usd_per_hour=0.0, market=Market.OWNED)
    jobs = run(make_job(limits=Limits(budget_usd=1.0)), config=make_config((free, 2, 8)))
    assert jobs.success_probability[0] == 1.0
    assert jobs.cost_mean_usd[0] == 0.0


def test_one_row_for_people():
    limits = Limits(deadline_s=700.0, budget_usd=1.0)
    table = iterations()
    jobs = run(make_job(limits=limits), table)
    forecast = jobs.forecast(0, table.row(0))
    assert isinstance(forecast.iteration, IterationForecast)
    time = stats.norm(jobs.time_mean_s[0], jobs.time_std_s[0])
    for name, probability in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95)):
        quantile_s = time.ppf(probability)
        assert getattr(forecast.time_s, name) == pytest.approx(quantile_s, rel=1e-12)
        expected_usd = 5.4 * (quantile_s - 150.0) / 3600
        assert getattr(forecast.cost_usd, name) == pytest.approx(expected_usd, rel=1e-12)
    persistent = math.sqrt(0.02**2 + 0.01**2 + 0.03**2)
    assert forecast.iteration_s.std == pytest.approx(math.hypot(0.04, persistent), rel=1e-12)
    assert forecast.iteration_s.p50 == 0.5
    assert forecast.success_probability == jobs.success_probability[0]
    assert forecast.time_s.mean == jobs.time_mean_s[0]


def test_rows_keep_their_own_prices():
    table = ConfigTable.from_configs([CONFIG, make_config((CHEAP, 1, 8))])
    both = ForecastTable.concatenate([CERTAIN, iterations(1.0, 0, 0, 0, 0)])
    jobs = forecast_jobs(make_job(overheads=NO_OVERHEADS), table, both)
    assert len(jobs) == 2
    assert jobs.cost_mean_usd == pytest.approx([5.4 * 500 / 3600, 1.2 * 1000 / 3600], rel=1e-14)


amount = st.floats(0.01, 10.0)


@settings(deadline=None, max_examples=100)
@given(amount, amount, st.floats(1.0, 2.0), st.floats(0.0, 0.1))
def test_wider_limits_never_lower_the_chance(hours, usd, factor, spread):
    table = iterations(1.0, 0.0, 0.0, 0.0, spread)
    limits = Limits(deadline_s=3600 * hours, budget_usd=usd)
    wider = replace(limits, deadline_s=3600 * hours * factor, budget_usd=usd * factor)
    job = make_job(iterations=3000, limits=limits)
    both = run(job, table).success_probability[0]
    assert both <= run(replace(job, limits=wider), table).success_probability[0]
    for one in (replace(limits, budget_usd=None), replace(limits, deadline_s=None)):
        assert both <= run(replace(job, limits=one), table).success_probability[0]


def in_zone(zone, name="a1.x", usd_per_gb=0.02):
    billing = BillingRule("toy", "2020-01-01", cross_zone_usd_per_gb=usd_per_gb)
    return Offer(make_type(name), Market.SPOT, Location("r", zone), 1.0, 9, billing=billing)


@pytest.mark.parametrize(
    ("zones", "gigabytes_a_step"),
    [
        (["a", "b"], 2 * 2 * 0.4 * 1 / 2),  # two borders, 2 s (n-1)/n each
        (["a", "a", "b"], 2 * 2 * 0.4 * 2 / 3),
        (["a", "b", "c"], 3 * 2 * 0.4 * 2 / 3),
        (["a", "a"], 0.0),
        (["a", None], 0.0),  # what any zone has goes beside the others
        (["a", None, "b"], 2 * 2 * 0.4 * 2 / 3),
    ],
)
def test_bytes_that_cross_zones_are_paid(zones, gigabytes_a_step):
    config = make_config(*((in_zone(zone, f"a{i}.x"), 1, 8) for i, zone in enumerate(zones)))
    job = make_job(make_profile(gradients=((400_000_000, 1.0),)), iterations=450_000)
    jobs = run(job, CERTAIN, config)
    usd = gigabytes_a_step * 0.02 * 450_000
    assert jobs.fixed_usd[0] == pytest.approx(usd)
    hours = 450_000 * 0.5 / 3600
    assert jobs.cost_mean_usd[0] == pytest.approx(len(zones) * hours + usd)
    assert jobs.forecast(0, CERTAIN.row(0)).traffic_usd == pytest.approx(usd)


def test_the_traffic_of_the_issue_by_hand():
    config = make_config((in_zone("a"), 1, 8), (in_zone("b"), 1, 8))
    job = make_job(make_profile(gradients=((400_000_000, 1.0),)), iterations=450_000)
    assert run(job, CERTAIN, config).fixed_usd[0] == pytest.approx(7_200.0)


def test_a_reservation_that_ends_bounds_the_time():
    ending = replace(CHEAP, market=Market.RESERVED, usd_per_hour=0.0, ends_in_s=660.0)
    job = make_job(overheads=Overheads(launch_s=150.0))
    jobs = run(job, config=make_config((ending, 2, 8), (DEAR, 1, 32)))
    assert jobs.available_s[0] == 660.0
    expected = stats.norm(jobs.time_mean_s[0], jobs.time_std_s[0]).cdf(660.0)
    assert jobs.success_probability[0] == pytest.approx(expected)
    assert run(job).available_s[0] == math.inf
