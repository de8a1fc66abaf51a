import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.probing.burst import LongPoint, LongRun, Trend
from srifty.probing.grid import Cell
from srifty.units import MIB


def run_of(times_s, before_s=()):
    points = tuple(LongPoint(float(i + 1), time_s) for i, time_s in enumerate(times_s))
    return LongRun(Cell(64 * MIB), 4, points, tuple(before_s))


def at_gbit(*series):
    """Seconds per message of 64 MiB at each (Gbit/s, how often)."""
    return [64 * MIB * 8 / (gbit * 1e9) for gbit, count in series for _ in range(count)]


@pytest.mark.parametrize(
    ("series", "trend"),
    [
        ([(24, 48), (5, 30)], Trend.DROPPED),  # "up to 25 Gbit/s": minutes of burst, then 5
        ([(24, 90)], Trend.STEADY),
        ([(24, 30), (20, 30)], Trend.STEADY),  # 17 % less
        ([(24, 30), (19, 30)], Trend.DROPPED),  # 21 % less
        ([(5, 30), (24, 30)], Trend.STEADY),
        ([(24, 30), (5, 15), (24, 30)], Trend.STEADY),  # came back
        ([(24, 55), (5, 5)], Trend.STEADY),  # only the end: cannot be told from a disturbance yet
        ([(24, 4), (5, 4)], Trend.TOO_SHORT),
    ],
)
def test_a_lasting_drop_is_told_from_the_rest(series, trend):
    assert run_of(at_gbit(*series)).trend is trend


def test_noise_that_comes_and_goes_is_no_drop():
    quick, slow = at_gbit((24, 1), (12, 1))
    assert run_of([quick, quick, slow] * 20).trend is Trend.STEADY
    # The last third is slow on its median, but a third of its points are as fast as ever.
    assert run_of([quick] * 40 + [slow, slow, quick] * 7).trend is Trend.STEADY


def test_a_burst_that_ended_before_the_long_run_shows_in_the_samples_before():
    long = run_of(at_gbit((5, 30)), before_s=at_gbit((24, 5)))
    assert long.trend is Trend.DROPPED
    assert long.last_s / long.first_s == pytest.approx(24 / 5)


@given(st.lists(st.floats(0.1, 10), min_size=9, max_size=60), st.floats(0.01, 100))
def test_the_trend_does_not_depend_on_the_unit(times, factor):
    margin = 1e-9  # no point stands exactly on the bound
    long = run_of(times)
    if any(abs(long.first_s - 0.8 * time) < margin for time in times):
        return
    assert run_of([time * factor for time in times]).trend is long.trend


def test_slices_cover_the_whole_run():
    slices = run_of([1.0] * 50 + [2.0] * 50).slices(8)
    assert len(slices) == 8
    assert slices[0].time_s == 1.0
    assert slices[-1] == LongPoint(100.0, 2.0)


def test_bus_bandwidth_counts_all_transfers_at_once():
    long = LongRun(Cell(MIB, 3), 4, ())
    assert long.bus_bytes_per_s(0.5) == 3 * MIB / 0.5 * 1.5
