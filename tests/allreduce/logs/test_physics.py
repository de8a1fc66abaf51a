from hypothesis import given
from hypothesis import strategies as st

from srifty.allreduce.logs.physics import (
    ANY_RANKS,
    Half,
    RankRange,
    agreed,
    fits_unit,
    fits_world,
    ranks,
    telling,
)
from srifty.allreduce.logs.printed import parse_number

SIZES = st.integers(1, 2**36)
TIMES_US = st.floats(2.0, 1e7)
WORLDS = st.integers(2, 4096)


def half(size: int, time_us: float, n: int, rings: int) -> Half:
    """Returns the figures as the tool prints them."""
    algbw = size / time_us / 1e3
    figures = (f"{time_us:.2f}", f"{algbw:.2f}", f"{algbw * rings * (n - 1) / n:.2f}")
    return Half(*(parse_number(text) for text in figures), "0", in_place=False)


@given(size=SIZES, time_us=TIMES_US, n=WORLDS, rings=st.sampled_from([1, 2]))
def test_true_figures_fit(size, time_us, n, rings):
    figures = half(size, time_us, n, rings)
    assert fits_unit(size, figures, 1e-6)
    assert fits_world(size, figures, 1e-6, rings * (n - 1) / n)
    allowed = ranks(figures, rings)
    assert n in allowed
    if telling(figures):
        assert not fits_unit(size, figures, 1e-3)
        assert not fits_unit(2 * size, figures, 1e-6)


@given(size=st.integers(2**28, 2**36), n=st.integers(2, 64), rings=st.sampled_from([1, 2]))
def test_fast_rows_tell_the_world(size, n, rings):
    figures = half(size, size / 400e3, n, rings)  # 400 GB/s
    assert ranks(figures, rings) == (n, n)
    assert not fits_world(size, figures, 1e-6, rings * n / (n + 1))


def test_a_bus_bandwidth_of_nothing_is_a_world_of_one():
    figures = Half(*(parse_number(text) for text in ("100.0", "200.00", "0.00")), "0", False)
    assert ranks(figures, 2) == (1, 1)


def test_more_than_twice_the_algorithm_bandwidth_is_no_world():
    figures = Half(*(parse_number(text) for text in ("100.0", "10.00", "20.50")), "0", False)
    assert ranks(figures, 2) is None


def test_no_bandwidth_tells_nothing():
    figures = Half(*(parse_number(text) for text in ("100.0", "0.00", "0.00")), "0", False)
    assert ranks(figures, 2) == ANY_RANKS
    assert not ANY_RANKS.tells
    assert not telling(figures)


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 9)).map(
            lambda p: RankRange(p[0], p[0] + p[1])
        ),
        min_size=1,
        max_size=12,
    )
)
def test_agreement_is_what_counting_finds(ranges):
    best, most = agreed(ranges)
    counts = {n: sum(n in r for r in ranges) for n in range(1, 61)}
    assert most == max(counts.values())
    assert {counts[n] for n in range(best.low, best.high + 1)} == {most}
