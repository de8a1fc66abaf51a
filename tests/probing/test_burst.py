from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srifty.probing.burst import LongPoint, LongRun, Trend
from srifty.probing.grid import Cell
from srifty.units import MIB


def run_of(times_s, before_s=()):
    """A run whose points each hold as many operations."""
    ends_s = accumulate(10 * time_s for time_s in times_s)
    points = tuple(map(LongPoint, ends_s, times_s))
    return LongRun(Cell(64 * MIB), 4, points, tuple(before_s))


def at_gbit(*series):
    """Seconds per message of 64 MiB at each (Gbit/s, for so many seconds)."""
    found = []
    for gbit, duration_s in series:
        time_s = 64 * MIB * 8 / (gbit * 1e9)
        found += [time_s] * round(duration_s / (10 * time_s))
    return found


@pytest.mark.parametrize(
    ("series", "trend"),
    [
        ([(24, 480), (5, 420)], Trend.DROPPED),  # "up to 25 Gbit/s": 8 minutes of burst, then 5
        ([(24, 480), (5, 120)], Trend.STEADY),  # too short a look at the baseline
        ([(24, 900)], Trend.STEADY),
        ([(24, 300), (20, 300)], Trend.STEADY),  # 17 % less
        ([(24, 300), (19, 300)], Trend.DROPPED),  # 21 % less
        ([(5, 300), (24, 300)], Trend.STEADY),
        ([(24, 300), (5, 200), (24, 300)], Trend.STEADY),  # came back
        ([(24, 550), (5, 50)], Trend.STEADY),
        ([(24, 1)], Trend.TOO_SHORT),
    ],
)
def test_a_lasting_drop_is_told_from_the_rest(series, trend):
    assert run_of(at_gbit(*series)).trend is trend


def test_noise_that_comes_and_goes_is_no_drop():
    quick, slow = 0.02, 0.04
    assert run_of([quick, quick, slow] * 20).trend is Trend.STEADY
    # The last third is slow on its median, but a third of its points are as fast as ever.
    long = run_of([quick] * 60 + [slow, slow, quick] * 10)
    assert long.last_s == slow
    assert long.trend is Trend.STEADY


def test_a_burst_that_ended_before_the_long_run_shows_in_the_samples_before():
    long = run_of(at_gbit((5, 300)), before_s=at_gbit((24, 5)))
    assert long.trend is Trend.DROPPED
    assert long.last_s / long.first_s == pytest.approx(24 / 5)


@given(st.lists(st.floats(0.1, 10), min_size=9, max_size=60), st.floats(0.01, 100))
def test_the_trend_does_not_depend_on_the_unit(times, factor):
    margin = 1e-6  # no point stands exactly on a bound
    long = run_of(times)
    thirds_s = [long.points[-1].at_s * part / 3 for part in (1, 2)]
    ends_s = [point.at_s for point in long.points]
    assume(all(abs(long.first_s - 0.8 * time) > margin for time in times))
    assume(all(abs(end - third) > margin for end in ends_s for third in thirds_s))
    assert run_of([time * factor for time in times]).trend is long.trend


def test_slices_cover_the_whole_run():
    slices = run_of([1.0] * 40 + [2.0] * 20).slices(8)
    assert [part.at_s for part in slices] == [100.0 * (i + 1) for i in range(8)]
    assert [part.time_s for part in slices] == [1.0] * 4 + [2.0] * 4


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60))
def test_any_run_can_be_shown(times):
    long = run_of(times)
    slices = long.slices()
    assert slices[-1].at_s == long.points[-1].at_s
    assert min(times) <= long.first_s <= max(times)
    assert min(times) <= long.last_s <= max(times)


def test_bus_bandwidth_counts_all_transfers_at_once():
    long = LongRun(Cell(MIB, 3), 4, ())
    assert long.bus_bytes_per_s(0.5) == 3 * MIB / 0.5 * 1.5
