import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from srifty.simulator.interruptions import MixedLaw, best_interval_s, extra_time

rates = st.floats(1e-9, 1e-3)
lengths = st.floats(1.0, 1e5)


def value(moments):
    return float(moments.mean_s[0]), float(moments.variance_s2[0])


def extra(rate, length_s, recovery_s):
    hazard = np.array([rate])
    return value(extra_time(hazard, np.array([length_s]), recovery_s, hazard))


@settings(deadline=None)
@given(rates, lengths, st.floats(0.0, 1e4))
def test_expected_time_is_dalys(rate, length_s, recovery_s):
    if rate * length_s > 50:
        return
    daly = math.exp(rate * recovery_s) * math.expm1(rate * length_s) / rate
    assert length_s + extra(rate, length_s, recovery_s)[0] == pytest.approx(daly, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1e-12, 1e-2), st.floats(0.1, 3.0))
def test_rare_losses_repeat_half_a_stretch(a, recovery):
    # To first order: with chance a, half of the stretch is lost on average, and a recovery.
    mean, variance = extra(a, 1.0, recovery)
    assert mean == pytest.approx(a * (0.5 + recovery), rel=10 * a + 1e-9)
    assert variance == pytest.approx(a * (1 / 12 + (0.5 + recovery) ** 2), rel=20 * a + 1e-9)


@pytest.mark.parametrize("a", [0.0099999, 0.0100001])
def test_series_meet_the_exact_forms(a):
    below, above = (extra(a * (1 + sign * 1e-9), 1.0, 1.0) for sign in (-1, 1))
    assert below == pytest.approx(above, rel=1e-7)
    exact = extra(0.011, 1.0, 1.0), extra(0.009, 1.0, 1.0)
    assert exact[0] > extra(a, 1.0, 1.0) > exact[1]


def test_moments_agree_with_simulated_stretches():
    rng = np.random.default_rng(1)
    rate, length_s, recovery_s = 1 / 900, 600.0, 200.0
    extras = []
    for _ in range(20_000):
        spent = 0.0
        while (lost := rng.exponential(1 / rate)) < length_s:
            spent += lost
            while (again := rng.exponential(1 / rate)) < recovery_s:
                spent += again
            spent += recovery_s
        extras.append(spent)
    mean, variance = extra(rate, length_s, recovery_s)
    assert mean == pytest.approx(np.mean(extras), rel=0.02)
    assert math.sqrt(variance) == pytest.approx(np.std(extras), rel=0.02)


@settings(deadline=None)
@given(rates, rates, lengths, st.floats(0.0, 1e4))
def test_more_losses_take_longer(one, other, length_s, recovery_s):
    low, high = sorted((one, other))
    assert extra(low, length_s, recovery_s)[0] <= extra(high, length_s, recovery_s)[0] * (1 + 1e-9)


@settings(deadline=None)
@given(st.floats(1e-8, 1e-2), st.floats(1e-2, 1e3))
def test_the_best_interval_is_the_best(rate, save_s):
    def waste(log_interval):
        interval = math.exp(log_interval)
        return math.expm1(min(rate * (interval + save_s), 600)) / (rate * interval)

    best = float(best_interval_s(np.array([rate]), save_s)[0])
    found = optimize.minimize_scalar(
        waste, bounds=(math.log(best) - 2, math.log(best) + 2), method="bounded"
    )
    assert waste(math.log(best)) <= found.fun * (1 + 1e-7)


def test_the_best_interval_is_youngs_where_losses_are_rare():
    rate, save_s = 1e-9, 4.0
    young = math.sqrt(2 * save_s / rate)
    assert best_interval_s(np.array([rate]), save_s)[0] == pytest.approx(young, rel=1e-4)
    # Daly's higher order stays within a percent of the exact one up to δλ = 0.1.
    for x in (1e-6, 1e-4, 1e-2, 0.1):
        daly = math.sqrt(2 * x) * (1 + math.sqrt(x / 2) / 3 + x / 18) - x
        assert best_interval_s(np.array([x]), 1.0)[0] * x == pytest.approx(daly, rel=0.01)


def law(none=0.5, mean=1000.0, std=20.0, late=300.0, late_std=250.0, skew=1.5):
    return MixedLaw(*(np.array([v]) for v in (none, mean, std, mean + late, late_std, skew)))


@settings(deadline=None)
@given(
    none=st.floats(0.0, 0.999),
    late=st.floats(0.0, 1e4),
    late_std=st.floats(20.0, 1e4),
    skew=st.floats(0.0, 5.0),
    probability=st.floats(0.5, 0.99),
)
def test_a_quantile_has_its_probability_and_is_never_early(none, late, late_std, skew, probability):
    mixed = law(none=none, late=late, late_std=late_std, skew=skew)
    time_s = mixed.quantile_s(probability)
    assert mixed.probability(time_s)[0] == pytest.approx(probability, abs=1e-6)
    undisturbed = stats.norm(1000.0, 20.0).ppf(probability)
    assert time_s[0] >= undisturbed - 1e-6


@pytest.mark.parametrize("shape", [1.0, 2.0, 8.0, 1e4])
def test_late_times_follow_a_gamma(shape):
    skew = 2 / math.sqrt(shape)
    mixed = law(none=0.0, mean=0.0, std=1e-9, late=shape, late_std=math.sqrt(shape), skew=skew)
    for probability in (0.5, 0.9, 0.95):
        expected = stats.gamma(shape).ppf(probability)
        assert mixed.quantile_s(probability)[0] == pytest.approx(expected, rel=0.02)


def test_certain_jobs_end_at_once():
    certain = law(none=1.0, std=0.0)
    assert certain.quantile_s(0.9)[0] == pytest.approx(1000.0)
    assert certain.probability(np.array([999.9]))[0] == 0
    assert certain.probability(np.array([1000.1]))[0] == 1
