import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.catalog.sanity import (
    PriceFlag,
    PriceReason,
    age_in_words,
    check_price,
    judge_price,
    parse_number,
)
from srifty.core.offers import Market

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)


def ago(**span):
    return (NOW - timedelta(**span)).isoformat()


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        (None, PriceReason.MISSING),
        ("", PriceReason.MISSING),
        ("  ", PriceReason.MISSING),
        (0, PriceReason.ZERO),
        ("0.00", PriceReason.ZERO),
        ("-0.0", PriceReason.ZERO),
        (-0.1, PriceReason.NEGATIVE),
        ("-3", PriceReason.NEGATIVE),
        (math.nan, PriceReason.NOT_A_NUMBER),
        ("nan", PriceReason.NOT_A_NUMBER),
        ("1_0", PriceReason.NOT_A_NUMBER),
        ("$3", PriceReason.NOT_A_NUMBER),
        ("3,06", PriceReason.NOT_A_NUMBER),
        ("١٢", PriceReason.NOT_A_NUMBER),
        (math.inf, PriceReason.TOO_HIGH),
        ("1e999", PriceReason.TOO_HIGH),
        (8001, PriceReason.TOO_HIGH),
        (0.039, PriceReason.TOO_LOW),
        ("0.00001", PriceReason.TOO_LOW),
    ],
)
def test_a_price_that_cannot_be_is_rejected_with_its_reason(price, reason):
    check = check_price(price, gpus=8, market=Market.ON_DEMAND, now=NOW, date=ago(days=1))
    assert (check.accepted, check.reason, check.usd_per_hour) == (False, reason, None)


@pytest.mark.parametrize("price", [8000, 0.04, "55.04", " 55.04 ", "5.504e1"])
def test_a_price_within_bounds_per_gpu_is_accepted(price):
    check = check_price(price, gpus=8, market=Market.ON_DEMAND, now=NOW, date=ago(days=1))
    assert check.accepted
    assert check.usd_per_hour == float(price)
    assert check.flags == ()


def test_zero_is_free_only_where_that_is_said():
    assert judge_price("0.00", 8, free=True) == 0
    assert judge_price("", 8, free=True) is PriceReason.MISSING


@pytest.mark.parametrize(("spot", "flagged"), [(0.43, False), (0.44, True), (0.49, True)])
def test_spot_that_is_not_cheaper_is_flagged(spot, flagged):
    check = check_price(
        spot,
        gpus=1,
        market=Market.SPOT,
        now=NOW,
        date=ago(hours=9),
        on_demand_usd_per_hour=0.44,
    )
    assert (PriceFlag.SPOT_NOT_CHEAPER in check.flags) is flagged
    assert check.age == "9 hours"


@pytest.mark.parametrize(
    ("market", "date", "flags"),
    [
        (Market.SPOT, ago(hours=23), ()),
        (Market.SPOT, ago(hours=25), (PriceFlag.STALE,)),
        (Market.ON_DEMAND, ago(hours=25), ()),
        (Market.ON_DEMAND, ago(days=31), (PriceFlag.STALE,)),
        (Market.ON_DEMAND, None, (PriceFlag.UNDATED,)),
        (Market.ON_DEMAND, "soon", (PriceFlag.UNDATED,)),
        (Market.ON_DEMAND, "2026", (PriceFlag.UNDATED,)),
        (Market.ON_DEMAND, "2025", (PriceFlag.STALE,)),
        (Market.SPOT, "2026-06", (PriceFlag.STALE,)),
        (Market.ON_DEMAND, "2026-99", (PriceFlag.UNDATED,)),
    ],
)
def test_old_prices_are_flagged_by_market(market, date, flags):
    assert check_price(1, gpus=1, market=market, now=NOW, date=date).flags == flags


@pytest.mark.parametrize(
    ("date", "words"),
    [
        (ago(seconds=10), "just now"),
        (ago(minutes=1), "1 minute"),
        (ago(hours=9), "9 hours"),
        (ago(days=12), "12 days"),
        (ago(days=400), "13 months"),
        ("2026-07-20", "12 hours"),
        ("2026", "of 2026"),
        (None, "undated"),
        ("yesterday", "undated"),
        (ago(days=-3), "of the future"),
    ],
)
def test_age_in_words(date, words):
    assert age_in_words(date, NOW) == words


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_prints_is_parsed_exactly(value):
    assert parse_number(repr(value)) == value
