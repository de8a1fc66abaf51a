"""Whole jobs on VMs that are taken away, against runs that are played out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import Limits, Market, Overheads
from srifty.core.interruptions import InterruptionRate
from srifty.simulator import ConfigTable, ForecastTable, forecast_jobs
from tests.builders import make_config, make_job, make_offer, make_type
from tests.simulator.interrupted_job import play

PRICE = 1.2


def spot(rate_per_hour, spread=0.0, name="a1.x"):
    offer = make_offer(make_type(name), PRICE, Market.SPOT)
    return replace(offer, interruptions=InterruptionRate(rate_per_hour, spread))


def forecasts(mean_s=1.0, **stds):
    values = {name: np.zeros(1) for name in ForecastTable.__dataclass_fields__}
    values |= {name: np.array([value]) for name, value in stds.items()}
    return ForecastTable(**values | {"mean_s": np.array([mean_s])})


def run(offer, vms, overheads, iterations=3600, table=None, limits=None):
    job = make_job(iterations=iterations, overheads=overheads, limits=limits)
    config = make_config((offer, vms, 64 // vms))
    return forecast_jobs(job, ConfigTable.from_configs([config]), table or forecasts())


@pytest.mark.parametrize(
    ("rate_per_hour", "vms", "every", "runs"),
    [
        (0.02, 4, 600, 20_000),
        (0.3, 8, 300, 6_000),
        (2.0, 1, 300, 6_000),
        (1.0, 4, 100, 5_000),
        (0.05, 8, None, 12_000),
    ],
)
def test_time_and_money_agree_with_runs_played_out(rate_per_hour, vms, every, runs):
    overheads = Overheads(
        launch_s=120.0,
        setup_s=60.0,
        restore_s=10.0,
        detection_s=20.0,
        checkpoint_every=every,
        checkpoint_s=5.0 if every else 0.0,
    )
    table = run(spot(rate_per_hour), vms, overheads)
    length_s = (every or 3600) * 1.0
    stretches = [(60.0, 60.0)]
    stretches += [(length_s + overheads.checkpoint_s, 70.0)] * round(3600 / length_s)
    played = play(vms, rate_per_hour / 3600, stretches, 140.0, runs, seed=vms)
    time_s = played.time_s + 120.0
    billed = played.billed_vm_s * PRICE / 3600
    assert table.time_mean_s[0] == pytest.approx(time_s.mean(), rel=0.015)
    assert table.cost_mean_usd[0] == pytest.approx(billed.mean(), rel=0.015)
    assert table.time_std_s[0] == pytest.approx(time_s.std(), rel=0.06)
    told = table.forecast(0, forecasts().row(0)).interruptions
    assert told.expected == pytest.approx(played.losses.mean(), rel=0.05)
    assert told.none_probability == pytest.approx((played.losses == 0).mean(), abs=0.015)
    for confidence in (0.8, 0.9, 0.95):
        kept = (time_s <= table.time_quantile_s(confidence)[0] + 1e-6).mean()
        assert kept >= confidence - 0.02


def test_a_rate_that_is_not_well_known_widens_the_odds():
    overheads = Overheads(checkpoint_every=300, checkpoint_s=5.0)
    known = run(spot(0.3), 4, overheads)
    unsure = run(spot(0.3, spread=1.0), 4, overheads)
    assert unsure.time_quantile_s(0.9)[0] > known.time_quantile_s(0.9)[0]
    assert unsure.time_std_s[0] > known.time_std_s[0]
    # The median is kept, so the mean of a lognormal rate is e^(σ²/2) times it.
    rare = [run(spot(1e-6, spread), 4, overheads) for spread in (1.0, 0.0)]
    told = [table.forecast(0, forecasts().row(0)).interruptions.expected for table in rare]
    assert told[0] / told[1] == pytest.approx(np.exp(0.5), rel=1e-3)


def test_only_vms_that_can_be_lost_count():
    overheads = Overheads(checkpoint_every=300, checkpoint_s=5.0)
    owned = make_offer(make_type("b1.x"), PRICE)
    job = make_job(iterations=3600, overheads=overheads)
    configs = ConfigTable.from_configs(
        [
            make_config((spot(0.3), 2, 32)),
            make_config((spot(0.3), 2, 16), (owned, 2, 16)),
            make_config((owned, 4, 16)),
        ]
    )
    values = {f: np.zeros(3) for f in ForecastTable.__dataclass_fields__} | {"mean_s": np.ones(3)}
    table = forecast_jobs(job, configs, ForecastTable(**values))
    assert table.time_mean_s[0] == pytest.approx(table.time_mean_s[1], rel=1e-12)
    assert table.time_mean_s[2] == table.undisturbed_s[2]
    one = [table.take(slice(row, row + 1)).forecast(0, forecasts().row(0)) for row in range(3)]
    assert one[2].interruptions is None
    assert one[0].interruptions == one[1].interruptions
    assert table.take(np.array([2, 0])).forecast(1, forecasts().row(0)).time_s == one[0].time_s


stds = st.floats(0.0, 0.1)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(1e-4, 3.0),
    spread=st.floats(0.0, 1.5),
    vms=st.sampled_from([1, 2, 8]),
    every=st.sampled_from([None, 1, 50, 10_000]),
    step=stds,
    model=stds,
    confidence=st.floats(0.5, 0.99),
)
def test_losses_never_make_a_job_shorter_or_cheaper(
    rate, spread, vms, every, step, model, confidence
):
    overheads = Overheads(checkpoint_every=every, checkpoint_s=3.0, setup_s=10.0)
    spread_table = forecasts(step_std_s=step, model_std_s=model)
    calm = run(spot(0.0), vms, overheads, table=spread_table)
    table = run(spot(rate, spread), vms, overheads, table=spread_table)
    assert table.time_mean_s[0] >= calm.time_mean_s[0]
    assert table.cost_mean_usd[0] >= calm.cost_mean_usd[0] * (1 - 1e-12)
    sure_s = table.time_quantile_s(confidence)
    assert sure_s[0] >= calm.time_quantile_s(confidence)[0] * (1 - 1e-9)
    assert (
        table.cost_usd(sure_s)[0] >= calm.cost_usd(calm.time_quantile_s(confidence))[0] * 0.999999
    )


@settings(max_examples=40, deadline=None)
@given(rate=st.floats(1e-3, 2.0), save_s=st.floats(0.1, 60.0), vms=st.sampled_from([1, 4, 16]))
def test_chosen_checkpoints_are_as_good_as_any(rate, save_s, vms):
    chosen = run(spot(rate), vms, Overheads(checkpoint_auto=True, checkpoint_s=save_s))
    told = chosen.forecast(0, forecasts().row(0)).interruptions
    assert told.checkpoint_every is None or 1 <= told.checkpoint_every <= 3600
    others = [
        run(spot(rate), vms, Overheads(checkpoint_every=every, checkpoint_s=save_s))
        for every in (None, 1, 10, 40, 100, 300, 600, 1200, 1800)
    ]
    least_s = min(float(other.time_mean_s[0]) for other in others)
    # Intervals that end with the job's end can be a little better than the endless job's best.
    assert chosen.time_mean_s[0] <= least_s * 1.01


def test_nothing_is_saved_where_nothing_can_be_lost():
    table = run(spot(0.0), 4, Overheads(launch_s=0.0, checkpoint_auto=True, checkpoint_s=9.0))
    assert table.time_mean_s[0] == 3600.0


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_deadline_and_budget_hold_with_the_stated_odds(rate):
    overheads = Overheads(checkpoint_every=300, checkpoint_s=5.0)
    free = run(spot(rate), 4, overheads, table=forecasts(model_std_s=0.02))
    time_s = free.time_quantile_s(0.9)
    in_time = run(
        spot(rate), 4, overheads, table=forecasts(model_std_s=0.02), limits=Limits(float(time_s[0]))
    )
    assert in_time.success_probability[0] == pytest.approx(0.9, abs=1e-6)
    usd = float(free.cost_usd(time_s)[0])
    paid = run(
        spot(rate), 4, overheads, table=forecasts(model_std_s=0.02), limits=Limits(None, usd)
    )
    assert paid.success_probability[0] == pytest.approx(0.9, abs=1e-6)
