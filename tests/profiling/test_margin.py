import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.profiling.margin import (
    LEAST_MARGIN,
    largest_with_margin,
    margin_of,
    predict_host_bytes,
    usable_bytes,
)
from srifty.profiling.outcome import Outcome, Verdict
from srifty.units import GIB, MIB


def fit(batch, peak=None, host=None, spread=0.0):
    return Outcome(batch, Verdict.FITS, peak_bytes=peak, host_peak_bytes=host, peak_spread=spread)


def test_steady_peaks_get_the_least_margin_and_others_their_spread_and_a_point():
    assert margin_of([]) == margin_of([fit(1)]) == LEAST_MARGIN
    assert margin_of([fit(1, spread=0.02), fit(2, spread=0.05)]) == pytest.approx(0.06)


def test_what_did_not_fit_shows_how_much_memory_can_be_used():
    largest = fit(50, peak=700)
    assert usable_bytes(1000, largest, None) == 1000
    assert usable_bytes(1000, largest, 51) == pytest.approx(714)
    assert usable_bytes(None, largest, 51) == pytest.approx(714)
    assert usable_bytes(710, largest, 51) == 710
    assert usable_bytes(None, largest, None) is None


def test_the_next_size_to_look_at_lies_on_the_line_to_the_first_that_is_too_large():
    assert largest_with_margin({64: 640, 80: 800}, 720) == (64, 72)
    assert largest_with_margin({64: 640, 65: 660}, 650) == (64, 64)
    assert largest_with_margin({64: 640}, 650) == (64, 64)
    assert largest_with_margin({64: 700}, 650) == (0, 0)
    assert largest_with_margin({16: 990, 64: 500}, 900) == (0, 0)


@given(
    st.dictionaries(st.integers(1, 100), st.integers(1, 1000), min_size=1),
    st.integers(1, 1000),
)
def test_all_sizes_up_to_the_safe_one_are_allowed(peaks, allowed):
    safe, wanted = largest_with_margin(peaks, allowed)
    assert all(peak <= allowed for batch, peak in peaks.items() if batch <= safe)
    assert safe <= wanted
    assert not [batch for batch in peaks if safe < batch <= wanted]


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_need_of_twice_the_batch_follows_its_growth(power):
    def need(batch):
        return GIB + MIB * batch**power

    fits = {2**k: fit(2**k, host=need(2**k)) for k in range(8)}
    assert predict_host_bytes(fits, 256) == pytest.approx(need(256), rel=0.05)


def test_noise_of_the_process_is_no_growth():
    fits = {1: fit(1, host=200 * MIB), 2: fit(2, host=200 * MIB + 4096), 4: fit(4, host=203 * MIB)}
    assert predict_host_bytes(fits, 8) == pytest.approx(206 * MIB)


def test_one_size_predicts_nothing():
    assert predict_host_bytes({1: fit(1, host=GIB)}, 2) is None
    assert predict_host_bytes({1: fit(1), 2: fit(2)}, 4) is None
