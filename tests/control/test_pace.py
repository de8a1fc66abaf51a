"""The pace and its bound, against closed forms and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from srifty.control import PaceRule, Watch, pace_of, watch
from srifty.core.events import Progress
from srifty.errors import InputError

RULE = PaceRule()


def reports(times_s, pauses_s=None) -> list[Progress]:
    pauses_s = np.zeros(len(times_s)) if pauses_s is None else pauses_s
    return [
        Progress(float(t), i, paused_s=float(p))
        for i, (t, p) in enumerate(zip(times_s, pauses_s, strict=True))
    ]


@given(
    iteration_s=st.floats(0.05, 20.0), window_s=st.floats(60.0, 900.0), begun_s=st.floats(0, 1e5)
)
def test_an_even_pace_has_no_spread(iteration_s, window_s, begun_s):
    rule = PaceRule(window_s=window_s)
    points = reports(begun_s + iteration_s * np.arange(400))
    pace = pace_of(points, rule)
    assert pace is not None
    assert pace.mean == pytest.approx(1 / iteration_s, rel=1e-6)
    assert pace.bound == pytest.approx(1 / iteration_s, rel=1e-6)


def test_the_bound_is_that_of_students_t_over_block_means():
    rates = np.array([1.0, 1.1, 0.9, 1.2, 1.0, 0.8, 1.05, 0.95, 1.15, 0.85])  # of 30 s each
    done = np.concatenate([[0.0], np.cumsum(30 * rates)])
    points = [Progress(30.0 * i, float(n)) for i, n in enumerate(done)]
    pace = pace_of(points, RULE)
    expected = rates.mean() + stats.t.ppf(0.95, 9) * rates.std(ddof=1) / math.sqrt(10)
    assert pace.mean == pytest.approx(rates.mean())
    assert pace.bound == pytest.approx(expected)
    assert pace.window_s == pytest.approx(300.0)


def test_the_bound_covers_the_true_pace_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(500):
        times_s = np.cumsum(1.0 + 0.2 * rng.standard_normal(310))
        covered += pace_of(reports(times_s), RULE).bound >= 1.0
    assert 0.92 <= covered / 500 <= 0.98


def test_only_the_window_counts():
    times_s = np.concatenate([np.arange(0, 1000, 1.0), 1000 + 2.0 * np.arange(200)])
    assert pace_of(reports(times_s), RULE).mean == pytest.approx(0.5, rel=0.01)


def test_fewer_than_twenty_iterations_say_nothing_yet():
    points = reports(3.0 * np.arange(21))
    assert pace_of(points[:20], RULE) is None
    assert pace_of(points, RULE).window_s == pytest.approx(60.0)


def test_slow_iterations_are_looked_at_further_back():
    pace = pace_of(reports(40.0 * np.arange(50)), RULE)
    assert pace.window_s == pytest.approx(800.0)


def test_a_run_that_hardly_moves_has_a_pace_all_the_same():
    points = [Progress(0.0, 0), *(Progress(60.0 * i, 1) for i in range(1, 30))]
    pace = pace_of(points, RULE)
    assert pace is not None
    assert pace.mean < 1 / 300


def test_announced_pauses_are_no_slow_down():
    times_s = np.arange(400.0)
    pauses_s = np.where(times_s >= 350, 60.0, 0.0)
    pace = pace_of(reports(times_s + pauses_s, pauses_s), RULE)
    assert pace.mean == pytest.approx(1.0)
    assert pace.bound == pytest.approx(1.0)


def test_two_windows_in_a_row_raise_the_alarm_and_one_good_one_stops_it():
    state = Watch()
    alarms = []
    for i in range(600):
        state, _ = watch(state, Progress(float(i), i), 1.2, RULE)
        alarms.append(state.is_alarm(RULE))
    first = alarms.index(True)
    assert 20 + 60 <= first <= 20 + 61  # judged first after 20 iterations, then a stride later
    state, _ = watch(state, Progress(660.0, 660), 0.5, RULE)
    assert not state.is_alarm(RULE)


def test_the_watch_keeps_no_more_than_it_needs():
    state = Watch()
    for i in range(5000):
        state, _ = watch(state, Progress(float(i), i), 0.0, RULE)
    assert len(state.points) <= 2 * RULE.window_s + 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("window_s", 0.0), ("blocks", 9), ("confidence", 1.0), ("misses", 0), ("stride", -1.0)],
)
def test_senseless_rules_are_refused(field, value):
    with pytest.raises(InputError, match=field.split("_")[0]):
        PaceRule(**{field: value})
