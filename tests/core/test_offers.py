from dataclasses import FrozenInstanceError

import pytest

from srifty.core import Location, Market, Offer
from srifty.core.offers import QuotaPool, QuotaUnit
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


KIND = make_type(vcpus=8)


@pytest.mark.parametrize(
    ("quota", "pools", "most"),
    [
        (5, (), 5),
        (5, (QuotaPool("spot G", 32),), 4),
        (3, (QuotaPool("spot G", 32),), 3),
        (5, (QuotaPool("spot G", 7),), 0),
        (5, (QuotaPool("zones", 2, QuotaUnit.VMS), QuotaPool("spot G", 32)), 2),
    ],
)
def test_most_vms_within_all_quotas(quota, pools, most):
    offer = Offer(KIND, Market.SPOT, Location("r"), 1.0, quota, pools=pools)
    assert offer.most_vms == most


def test_a_pool_weighs_vms_or_their_vcpus():
    assert QuotaPool("spot G", 32).weight(KIND) == 8
    assert QuotaPool("zones", 2, QuotaUnit.VMS).weight(KIND) == 1
    with pytest.raises(InputError, match="spot G"):
        QuotaPool("spot G", -1)
