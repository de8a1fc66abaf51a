from datetime import UTC, datetime, timedelta

import pytest

from srifty.catalog import builtin_instance_types, price_notes, spot_cost_range_usd
from srifty.catalog.quotes import STATED
from srifty.core import (
    ClusterConfig,
    Distribution,
    IterationForecast,
    JobForecast,
    Location,
    Market,
    Offer,
    Plan,
    VmGroup,
)
from tests.builders import make_type

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
KIND = make_type("a1.small")


def offer(usd=1.0, hours_ago=None, market=Market.SPOT, source="file", date=None):
    if hours_ago is not None:
        date = (NOW - timedelta(hours=hours_ago)).isoformat()
    return Offer(KIND, market, Location("r1", "z1"), usd, 4, source, date)


def note(one, *others):
    on_demand = {other.instance_type.name: other.usd_per_hour for other in others}
    (found,) = price_notes([one, one], on_demand, NOW)
    return found


@pytest.mark.parametrize(
    ("one", "age", "warns"),
    [
        (offer(hours_ago=9), "9 hours", False),
        (offer(hours_ago=23.9), "24 hours", False),
        (offer(hours_ago=24.1), "24 hours", True),
        (offer(hours_ago=24 * 29, market=Market.ON_DEMAND), "29 days", False),
        (offer(hours_ago=24 * 31, market=Market.ON_DEMAND), "31 days", True),
        (offer(date="2026"), "of 2026", True),
        (offer(date=None), "undated", True),
        (offer(hours_ago=-24 * 365), "of the future", True),
    ],
)
def test_age_of_each_price(one, age, warns):
    found = note(one)
    assert f"$1.00 per hour, {age} (file)" in found.line
    assert len(found.warnings) == warns
    assert all("snapshot" in w and "srifty catalog" in w for w in found.warnings)


def test_a_stated_price_has_no_age_and_no_warning():
    found = note(offer(source=STATED))
    assert found.line == "a1.small (spot) in z1: $1.00 per hour, stated in the job"
    assert found.warnings == ()


def test_spot_that_is_not_cheaper_warns():
    on_demand = offer(0.9, 1, Market.ON_DEMAND)
    (warning,) = note(offer(0.9, 1), on_demand).warnings
    assert (
        warning == "Spot is not cheaper than on-demand for a1.small (spot) in z1 ($0.90 per hour)."
    )
    assert note(offer(0.89, 1), on_demand).warnings == ()


def test_an_absurd_price_warns():
    assert "cannot be right" in note(offer(0.0001, 1)).warnings[0]


def test_a_price_far_below_the_known_ones_warns():
    p5 = builtin_instance_types()["p5.48xlarge"]
    bogus = Offer(p5, Market.SPOT, Location("us-east-1"), 0.5, 4, "file", NOW.isoformat())
    (found,) = price_notes([bogus], {}, NOW)
    assert "below a twentieth" in found.warnings[0]


def test_the_range_of_a_spot_bill_ends_at_on_demand_prices():
    spot, dear = offer(1.0), offer(2.0, market=Market.ON_DEMAND)
    config = ClusterConfig((VmGroup(spot, 3, 8, 1), VmGroup(dear, 1, 8, 1)))
    flat = Distribution(10.0, 0.0, 10.0, 10.0, 10.0)
    iteration = IterationForecast(1.0, *([0.0] * 10))
    plan = Plan(config, JobForecast(iteration, flat, flat, flat, 1.0))
    assert spot_cost_range_usd(plan, {"a1.small": 4.0}) == (10.0, pytest.approx(10 + 3 * 3 * 2))
    assert spot_cost_range_usd(plan, {}) is None
    assert spot_cost_range_usd(plan, {"a1.small": 0.5}) == (10.0, 10.0)
