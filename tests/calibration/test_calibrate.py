from dataclasses import replace

import numpy as np
import pytest

from srifty.calibration import (
    LinkPrior,
    RemainingError,
    calibrate,
    calibrated,
    forecast_observed,
    observed_workload,
)
from srifty.calibration.posterior import _errors
from srifty.calibration.rows import rows_of
from srifty.core import Observation
from srifty.errors import ModelError
from tests.builders import make_schedule
from tests.calibration.synthetic import KIND, PRIOR, SPREAD, observed, probes, workloads

# Nothing but the data decides.
VAGUE = LinkPrior(effect_std=0.5, log_spread_std=3.0, slowdown=0.0)


@pytest.fixture(scope="module")
def rows():
    return observed()


@pytest.fixture(scope="module")
def calibration(rows):
    return calibrate(KIND, rows, workloads(), PRIOR, VAGUE)


def times_s(model, worlds, sizes=(1e6, 25e6, 400e6)):
    world, vms = (np.array(values) for values in zip(*worlds, strict=True))
    return model.time_s(KIND, world, vms, np.array(sizes))


def test_a_known_link_is_recovered(calibration, rows):
    for name, workload in workloads().items():
        mine = [row for row in rows if row.workload == name]
        forecast = forecast_observed(mine, workload, calibration, PRIOR)
        measured_s = np.array([row.step_s for row in mine])
        np.testing.assert_allclose(forecast.mean_s, measured_s, rtol=0.03)
    assert calibration.spread == pytest.approx(SPREAD, rel=0.15)


def test_computation_that_is_slower_in_company_is_not_taken_for_a_slow_link():
    truth = {"small": 0.01, "middle": 0.4, "large": 0.2}
    rows = observed(slowdowns=truth)
    found = calibrate(KIND, rows, workloads(), PRIOR)
    for name, slowdown in truth.items():
        assert found.traits[name].slowdown == pytest.approx(slowdown, abs=0.1)
    world, vms = np.array([8, 16, 8]), np.array([2, 4, 8])
    known = calibrate(KIND, observed(), workloads(), PRIOR).factors.log_factor(world, vms)
    np.testing.assert_allclose(found.factors.log_factor(world, vms), known, atol=0.1)


def test_a_worker_alone_is_as_fast_as_it_was_measured():
    rows = observed(slowdowns=dict.fromkeys(workloads(), 0.5))
    found = calibrate(KIND, rows, workloads(), PRIOR)
    workload = workloads()["large"]
    alone = [Observation("large", "A", KIND.name, (1,), 16, 1.0)]
    (mean_s,) = forecast_observed(alone, workload, found, PRIOR).mean_s
    assert mean_s == pytest.approx(float(workload.latency["A"].step_s(np.array([16.0]))[0]))


def test_what_the_observations_leave_open_grows_away_from_them(rows):
    """With few VMs seen, much is open of many; a link that nothing waited for is unknown."""
    small = calibrate(KIND, [row for row in rows if row.vms <= 2], workloads(), PRIOR)
    link = small.link("large")
    near, far = link.log_std(np.array([8, 256]), np.array([2, 64]))
    assert near < 0.1
    assert far > 3 * near
    assert small.link("another").log_std(np.array([8]), np.array([2])) > near
    hidden = [
        replace(row, local_batch=100_000, step_s=0.1 + 0.02 * 100_000)
        for row in rows
        if row.workload == "large" and row.vms in (2, 3)
    ]
    open_ = calibrate(KIND, hidden, workloads(("large",)), PRIOR)
    assert open_.link("large").log_std(np.array([8]), np.array([2])) > 0.9


def test_a_known_link_is_recovered_through_noise():
    noisy = calibrate(KIND, observed(noise=0.05, seed=1), workloads(), PRIOR, VAGUE)
    truth = observed()
    errors = []
    for name, workload in workloads().items():
        mine = [row for row in truth if row.workload == name]
        forecast = forecast_observed(mine, workload, noisy, PRIOR)
        errors.append(np.abs(forecast.mean_s / [row.step_s for row in mine] - 1).mean())
    assert np.mean(errors) < 0.03


def test_larger_clusters_are_forecast_from_smaller_ones(rows):
    small = calibrate(KIND, [row for row in rows if row.vms <= 4], workloads(), PRIOR)
    for name, workload in workloads().items():
        large = [row for row in rows if row.workload == name and row.vms > 4]
        forecast = forecast_observed(large, workload, small, PRIOR)
        error = np.abs(forecast.mean_s / [row.step_s for row in large] - 1)
        assert error.mean() < 0.05


def test_two_vms_can_be_slower_than_three(calibration):
    two, three = times_s(calibrated(PRIOR, [calibration]), [(8, 2), (12, 3)])
    assert np.all(two[1:] > three[1:])
    two, three = times_s(PRIOR, [(8, 2), (12, 3)])
    assert np.all(two < three)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_fit_has_the_simulators_law(rows, accumulation):
    """The arrays that are fitted and the simulator that forecasts say the same."""
    described = workloads()
    rows = [replace(row, accumulation=accumulation) for row in rows]
    found = calibrate(KIND, rows, described, PRIOR)
    arrays = rows_of(rows, described, KIND, PRIOR)
    at = np.array(
        [
            *(getattr(found.factors, name) for name in found.factors.__slots__),
            np.log(found.spread),
            *(found.traits[name].effect for name in described),
            *(found.traits[name].slowdown for name in described),
        ]
    )
    fitted_s = np.exp(_errors(arrays, at, len(described))[0]) * arrays.measured_s
    simulated_s = np.concatenate(
        [
            forecast_observed(
                [row for row in rows if row.workload == name], workload, found, PRIOR
            ).mean_s
            for name, workload in described.items()
        ]
    )
    np.testing.assert_allclose(fitted_s, simulated_s, rtol=1e-3)


def test_slopes_are_those_of_the_errors(rows):
    arrays = rows_of(rows, workloads(), KIND, PRIOR)
    at = np.array([0.7, 0.3, 0.1, 0.15, 0.2, np.log(0.04), 0.05, 0.0, -0.05, 0.03, 0.2, 0.4])
    error, slopes = _errors(arrays, at, 3)
    step = 1e-6
    for index in range(len(at)):
        moved = at.copy()
        moved[index] += step
        numeric = (_errors(arrays, moved, 3)[0] - error) / step
        np.testing.assert_allclose(slopes[:, index], numeric, atol=1e-4)


def test_a_new_workload_gets_the_median_effect_and_the_larger_error(calibration):
    traits = calibration.traits
    assert calibration.usual.effect == np.median([one.effect for one in traits.values()])
    assert calibration.usual.slowdown == np.median([one.slowdown for one in traits.values()])
    new, old = calibration.link("another"), calibration.link("small")
    assert new.effect == calibration.link().effect == calibration.usual.effect
    assert old.effect == traits["small"].effect != new.effect
    assert new.model_fraction == calibration.new_error.link
    assert new.covariance is calibration.usual.covariance
    assert old.model_fraction == calibration.seen_error.link


def test_noise_shows_in_the_remaining_error_and_is_covered():
    noisy = observed(noise=0.15, seed=2)
    found = calibrate(KIND, noisy, workloads(), PRIOR)
    exact = calibrate(KIND, observed(), workloads(), PRIOR)
    assert found.seen_error.link > exact.seen_error.link
    held = []
    for name, workload in workloads().items():
        others = [row for row in noisy if row.workload == name and row.vms > 1]
        forecast = forecast_observed(others, workload, found, PRIOR)
        p90_s = forecast.mean_s + 1.2816 * forecast.persistent_std_s
        held += list(np.array([row.step_s for row in others]) <= p90_s)
    assert 0.8 < np.mean(held) < 1.0


def test_a_host_that_several_workers_share_shows_in_the_computations_error():
    """Gradients of a kilobyte: whatever slows these rows down, it is not the link."""
    rng = np.random.default_rng(3)
    names = ("a", "b", "c")
    tiny = {
        name: observed_workload(
            name,
            [Observation(name, "A", KIND.name, (1,), batch, 0.1 * batch) for batch in (1, 8)],
            make_schedule([(1000, 1.0)]),
        )
        for name in names
    }
    rows = [
        Observation(name, "A", KIND.name, (4,) * vms, batch, 0.1 * batch * slowdown)
        for name in names
        for vms in (2, 3, 4)
        for batch in (1, 2, 4, 8)
        for slowdown in rng.uniform(1.0, 1.6, size=5)
    ]
    found = calibrate(KIND, rows, tiny, PRIOR)
    assert 0.05 < found.new_error.computation < 0.5
    model = found.latency(tiny["a"].latency["A"], "a")
    assert model.model_std_fraction > tiny["a"].latency["A"].model_std_fraction


def test_other_types_keep_the_priors_answers(calibration):
    model = calibrated(PRIOR, [calibration])
    other = replace(KIND, name="c4.large")
    world, vms, sizes = np.array([8, 4]), np.array([2, 1]), np.array([1.0, 1e7])
    np.testing.assert_array_equal(
        model.time_s(other, world, vms, sizes), PRIOR.time_s(other, world, vms, sizes)
    )
    asked = (np.array([8]), np.array([2]), np.array([1e7]))
    found, before = (m.uncertainty(other, *asked) for m in (model, PRIOR))
    assert found.model_fraction == before.model_fraction
    assert "not measured" in model.assumptions([other])[0]
    (sentence,) = model.assumptions([KIND, KIND])
    assert "calibrated from 99 observed iteration times (2 to 8 VMs, 3 workloads)" in sentence


def test_latency_stays_and_capacity_follows_the_transfer(calibration):
    model = calibrated(PRIOR, [calibration], "middle")
    world, vms = np.array([1, 8, 12]), np.array([1, 2, 3])
    tiny = model.time_s(KIND, world, vms, np.ones(1))
    np.testing.assert_allclose(tiny, PRIOR.time_s(KIND, world, vms, np.ones(1)))
    large = model.time_s(KIND, world, vms, np.array([1e9])) - tiny
    before = PRIOR.time_s(KIND, world, vms, np.array([1e9])) - tiny
    assert large[0] == 0.0
    slower = (large / np.where(before > 0, before, 1.0))[1:, 0]
    capacity = PRIOR.bus_capacity(KIND, world, vms) / model.bus_capacity(KIND, world, vms)
    np.testing.assert_allclose(slower, capacity[1:], rtol=1e-6)


def test_the_spread_between_workers_replaces_the_assumed_one(calibration):
    model = workloads()["small"].latency["A"]
    assert any("spread between GPUs" in words for words in model.assumptions)
    changed = calibration.latency(model)
    assert changed.total_std_fraction == pytest.approx(calibration.spread)
    assert not any("spread between GPUs" in words for words in changed.assumptions)


def test_one_workload_on_one_number_of_vms_keeps_the_priors_error():
    rows = [row for row in observed(names=("middle",)) if row.vms == 2]
    found = calibrate(KIND, rows, workloads(("middle",)), PRIOR)
    assert found.seen_error == found.new_error == RemainingError()
    model = calibrated(PRIOR, [found], "middle")
    asked = (np.array([8]), np.array([2]), np.array([1e7]))
    found_fraction, before = (m.uncertainty(KIND, *asked).model_fraction for m in (model, PRIOR))
    assert found_fraction == before


def test_rows_that_cannot_be_used_are_passed_over(rows, calibration):
    other_type = replace(rows[5], instance_type="x.large", step_s=100.0)
    stranger = replace(rows[5], workload="unknown", step_s=100.0)
    again = calibrate(
        KIND, [other_type, *rows, stranger, *probes("small")], workloads(), PRIOR, VAGUE
    )
    assert again == calibration


def test_nothing_with_several_vms_is_an_error(rows):
    single = [row for row in rows if row.vms == 1]
    with pytest.raises(ModelError, match=r"nothing was observed of b4\.large with several VMs"):
        calibrate(KIND, single, workloads(), PRIOR)
