from dataclasses import FrozenInstanceError

import pytest

from srifty.core import Location, Market
from srifty.errors import InputError
from tests.builders import make_offer, make_type


def test_label_names_the_market_unless_on_demand():
    kind = make_type("g3.8xlarge")
    assert make_offer(kind).label == "g3.8xlarge"
    assert make_offer(kind, market=Market.SPOT).label == "g3.8xlarge (spot)"


def test_location_prints_what_is_known_best():
    assert str(Location("us-east-1")) == "us-east-1"
    assert str(Location("us-east-1", "us-east-1a")) == "us-east-1a"
    assert str(Location("")) == "on site"


@pytest.mark.parametrize("market", [Market.ON_DEMAND, Market.SPOT])
@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_prices_refused(market, price):
    with pytest.raises(InputError, match="usd_per_hour must be above 0"):
        make_offer(usd_per_hour=price, market=market)


@pytest.mark.parametrize("market", [Market.OWNED, Market.RESERVED])
def test_owned_and_reserved_machines_may_be_free(market):
    assert make_offer(usd_per_hour=0.0, market=market).usd_per_hour == 0


@pytest.mark.parametrize("quota", [-1, 1.5, True, 10**30])
def test_quotas_refused(quota):
    with pytest.raises(InputError, match="quota must be"):
        make_offer(quota=quota)
    assert make_offer(quota=0).quota == 0


def test_offers_are_frozen():
    with pytest.raises(FrozenInstanceError):
        make_offer().quota = 3
