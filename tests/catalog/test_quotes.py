import pytest

from srifty.catalog.price import Price
from srifty.catalog.quotes import STATED, PriceBook
from srifty.core import Market
from srifty.core.supply import PriceEntry

DATE = "2026-07-20T00:00:00+00:00"


def price(usd, zone=None, cloud="toy", region="r1", market=Market.SPOT, kind="C"):
    return Price(cloud, kind, market, region, zone, usd, DATE, "file")


def quotes(*own, stated=()):
    found = PriceBook("toy", "r1", stated, own).quotes("C", Market.SPOT)
    return {quote.zone: quote.usd_per_hour for quote in found}


def test_prices_of_the_cloud_and_region_count():
    assert quotes(price(0.22), price(0.18, region="r2"), price(0.1, cloud="other")) == {None: 0.22}
    assert quotes(price(0.18, region="r2")) == {}


def test_a_price_for_each_zone():
    assert quotes(price(0.2, "z1"), price(0.3, "z2")) == {"z1": 0.2, "z2": 0.3}


def test_stated_prices_replace_all_others():
    stated = [PriceEntry("C", Market.SPOT, 0.5)]
    assert quotes(price(0.2, "z1"), stated=stated) == {None: 0.5}
    (quote,) = PriceBook("toy", "r1", stated).quotes("C", Market.SPOT)
    assert (quote.source, quote.date) == (STATED, None)


def test_own_prices_replace_the_built_in_ones_of_that_market():
    own = [price(9.0, "use1-az9", "aws", "us-east-1", kind="g4dn.xlarge")]
    book = PriceBook("aws", "us-east-1", (), own)
    assert [q.zone for q in book.quotes("g4dn.xlarge", Market.SPOT)] == ["use1-az9"]
    (on_demand,) = book.quotes("g4dn.xlarge", Market.ON_DEMAND)
    assert on_demand.usd_per_hour == 0.526


def test_zone_names_that_differ_between_accounts_become_one_median():
    own = [price(usd, f"us-east-1{letter}", "aws", "us-east-1") for usd, letter in
           ((0.2, "a"), (0.3, "b"), (0.7, "c"))]  # fmt: skip
    (quote,) = PriceBook("aws", "us-east-1", (), own).quotes("C", Market.SPOT)
    assert (quote.zone, quote.usd_per_hour) == (None, 0.3)
    assert "median over 3 zones" in quote.source


@pytest.mark.parametrize(("kind", "regions"), [("C", ("r2", "r3")), ("D", ())])
def test_other_regions_are_known(kind, regions):
    own = [price(1.0, region=region) for region in ("r3", "r1", "r2", "r3")]
    assert PriceBook("toy", "r1", (), own).elsewhere(kind, Market.SPOT) == regions
