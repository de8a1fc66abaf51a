import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.units import (
    GIB,
    MIB,
    format_bandwidth,
    format_bytes,
    format_duration,
    format_usd,
    gbit_to_bytes_per_s,
    parse_bytes,
    parse_duration_s,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500s", 500),
        ("6h", 21600),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("250ms", 0.25),
        ("1.5m", 90),
        (".5s", 0.5),
        (" 2d ", 172800),
        ("0s", 0),
    ],
)
def test_durations_parsed(text, seconds):
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "500", "6 hours", "-5s", "1h30", "h", "1e3s", "s5", "5S", "1,5h", "nan", "∞"]
)
def test_durations_refused(text):
    with pytest.raises(ValueError, match="write a number and a unit: 500s, 90m, 6h"):
        parse_duration_s(text)


@given(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "min", "h", "d"]))
def test_every_unit_scales(number, unit):
    assert parse_duration_s(f"{number}{unit}") == pytest.approx(
        number * parse_duration_s(f"1{unit}")
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (5e-6, "5 µs"),
        (0.0842, "84.2 ms"),
        (12.34, "12.3 s"),
        (99.96, "1 min 40 s"),
        (430, "7 min 10 s"),
        (3599.7, "1 h 00 min 00 s"),
        (9 * 3600 + 6 * 60, "9 h 06 min"),
        (76 * 3600, "3 d 04 h"),
        (-430, "-7 min 10 s"),
        (math.inf, "for ever"),
        (math.nan, "for ever"),
    ],
)
def test_durations_printed(seconds, text):
    assert format_duration(seconds) == text


@given(st.floats(1, 1e7))
def test_printed_durations_parse_to_about_the_same(seconds):
    assert parse_duration_s(format_duration(seconds)) == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize(
    ("usd", "text"), [(0.0042, "$0.0042"), (2.449, "$2.45"), (12345.4, "$12,345"), (0, "$0.00")]
)
def test_dollars(usd, text):
    assert format_usd(usd) == text


@pytest.mark.parametrize(
    ("count", "text"), [(512, "512 B"), (25 * MIB, "25 MiB"), (1.5 * GIB, "1.5 GiB")]
)
def test_bytes(count, text):
    assert format_bytes(count) == text


def test_bandwidth():
    assert format_bandwidth(12.5e9) == "12.5 GB/s"
    assert gbit_to_bytes_per_s(100) == 12.5e9


@pytest.mark.parametrize(
    ("text", "count"),
    [("4B", 4), (" 64 KiB", 65536), ("512MiB", 512 * MIB), ("0B", 0), ("1GiB", GIB)],
)
def test_sizes_parse(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "4", "MiB", "4MB", "4 mib", "1.5MiB", "-4B", "４B"])
def test_sizes_without_a_whole_number_or_unit_are_refused(text):
    with pytest.raises(ValueError, match="512MiB"):
        parse_bytes(text)
