from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.allreduce.logs.printed import parse_number, parse_whole


@given(value=st.floats(0, 1e12), decimals=st.integers(0, 6))
def test_what_was_rounded_lies_in_the_interval(value, decimals):
    printed = parse_number(f"{value:.{decimals}f}")
    assert printed.low <= value <= printed.high
    assert printed.high - printed.low < 1.01 * 10**-decimals + 1e-9 * value


@given(value=st.floats(1e-9, 1e15), digits=st.integers(0, 5))
def test_exponents_move_the_last_digit(value, digits):
    text = f"{value:.{digits}e}"
    printed = parse_number(text)
    assert printed.low <= value <= printed.high
    unit = Decimal(10) ** (int(text.partition("e")[2]) - digits)
    assert printed.high - printed.low == pytest.approx(float(unit), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "value"), [("1,073,741.5", 1073741.5), ("5e-07", 5e-7), ("-1", -1.0), ("12.", 12.0)]
)
def test_numbers(text, value):
    assert parse_number(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "N/A",
        "nan",
        "inf",
        "1.2.3",
        "1,2",
        "12 3",
        "0x10",
        "1e",
        "1e999",
        "9" * 99,
        "1e-9999",
    ],
)
def test_no_numbers(text):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("1048576", 1048576), ("1,048,576", 1048576), ("1e9", 10**9), ("2.5e3", 2500), ("0", 0)],
)
def test_whole_numbers(text, value):
    assert parse_whole(text) == value


@pytest.mark.parametrize("text", ["-1", "1.5", "1.23e1", "", "9" * 30, "1e30", "None"])
def test_no_whole_numbers(text):
    assert parse_whole(text) is None


def test_scaling():
    printed = parse_number("1.50").scaled(1000.0)
    assert printed.value == 1500.0
    assert printed.high - printed.low == pytest.approx(10.0, rel=1e-4)
