import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2")

from srifty.report.axis import dollar_axis, number_axis, time_axis

AXES = {
    "numbers": lambda high, **more: number_axis(0.0, high, 10.0, 500.0, **more),
    "dollars": lambda high, **more: dollar_axis(high, 10.0, 500.0, **more),
    "seconds": lambda high, **more: time_axis(high, 10.0, 500.0, **more),
}


@pytest.mark.parametrize("name", AXES)
@given(high=st.floats(0, 1e8), most=st.integers(2, 12))
def test_an_axis_covers_what_it_shows_with_few_ticks(name, high, most):
    axis = AXES[name](high, most=most)
    assert axis.low == 0.0
    assert axis.high >= high * (1 - 1e-6)
    values = [tick.value for tick in axis.ticks]
    assert values == sorted(set(values))
    assert 2 <= len(values) <= most + 2
    places = [axis.at(value) for value in values]
    assert places == sorted(places)
    assert places[0] == 10.0
    assert places[-1] == pytest.approx(500.0)
    labels = [tick.label for tick in axis.ticks]
    assert len(set(labels)) == len(labels)


@given(low=st.integers(0, 10**6), more=st.integers(1, 10**6), most=st.integers(2, 12))
def test_whole_numbers_have_whole_ticks(low, more, most):
    axis = number_axis(low - 0.5, low + more + 0.5, 0.0, 1.0, most=most, whole=True)
    assert axis.low <= low
    assert axis.high >= low + more
    assert all(tick.value == round(tick.value) for tick in axis.ticks)


def test_labels_are_round_and_have_units():
    assert [tick.label for tick in time_axis(5000, 0, 1).ticks][:3] == ["0", "15 min", "30 min"]
    assert [tick.label for tick in time_axis(0.38, 0, 1).ticks][-1] == "400 ms"
    assert [tick.label for tick in dollar_axis(0.04, 0, 1).ticks][1] == "$0.01"
    assert [tick.label for tick in number_axis(0, 2900, 0, 1).ticks][-1] == "3,000"


def test_what_lies_beyond_is_put_at_the_end():
    axis = number_axis(0, 10, 100.0, 0.0)
    assert axis.at(-5) == 100.0
    assert axis.at(50) == 0.0
    assert axis.at(5) == 50.0
