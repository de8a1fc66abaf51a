import pytest

from srifty.catalog import builtin_instance_types, resolve
from srifty.catalog.builtin import builtin_prices
from srifty.catalog.price import Price
from srifty.core import InstanceType, Market
from srifty.core.offers import QuotaPool, QuotaUnit
from srifty.core.supply import PriceEntry, QuotaEntry, SupplyRequest
from srifty.errors import InputError
from srifty.units import GIB

BOTH = (Market.ON_DEMAND, Market.SPOT)
REGIONS = {"aws": "us-east-1", "gcp": "us-central1"}
LISTED: dict[tuple[str, Market], dict[str | None, Price]] = {}
for price in builtin_prices():
    if price.region == REGIONS[price.cloud]:
        LISTED.setdefault((price.instance_type, price.market), {})[price.zone] = price
LAB = InstanceType("lab", "aws", "T4", 2, 16 * GIB, 8, 10.0)


def request(*quota, markets=BOTH, prices=(), declared=(), cloud="aws", region="us-east-1"):
    entries = tuple(QuotaEntry(*entry) for entry in quota)
    return SupplyRequest(cloud, region, markets, entries, tuple(prices), tuple(declared))


def offers(resolved):
    return {(o.instance_type.name, o.market): o for o in resolved.offers}


def test_a_bare_quota_holds_for_each_market_over_its_zones_together():
    resolved = resolve(request(("g4dn.xlarge", None, 4)))
    for market in BOTH:
        listed = LISTED["g4dn.xlarge", market]
        of_market = {o.location.zone: o for o in resolved.offers if o.market is market}
        assert of_market.keys() == listed.keys()
        for zone, offer in of_market.items():
            assert offer.quota == 4
            assert offer.usd_per_hour == listed[zone].usd_per_hour
            assert offer.price_source == listed[zone].source
            assert offer.price_date == (listed[zone].date or None)
        pools = {offer.pools for offer in of_market.values()}
        shared = (QuotaPool("g4dn.xlarge (spot)", 4, QuotaUnit.VMS),)
        assert pools == ({shared} if len(listed) > 1 else {()})


def test_quota_per_market():
    found = offers(
        resolve(
            request(("g4dn.xlarge", Market.SPOT, 8), ("p3.8xlarge", Market.ON_DEMAND, 2),
                    ("p3.8xlarge", Market.SPOT, 3))
        )
    )  # fmt: skip
    assert {key: offer.quota for key, offer in found.items()} == {
        ("g4dn.xlarge", Market.SPOT): 8,
        ("p3.8xlarge", Market.ON_DEMAND): 2,
        ("p3.8xlarge", Market.SPOT): 3,
    }


def test_a_market_that_was_not_asked_for_is_never_offered():
    resolved = resolve(request(("g4dn.xlarge", None, 4), markets=(Market.SPOT,)))
    assert set(offers(resolved)) == {("g4dn.xlarge", Market.SPOT)}


def test_a_quota_in_an_unasked_market_is_named():
    resolved = resolve(
        request(("g4dn.xlarge", Market.SPOT, 4), ("p3.8xlarge", None, 2), markets=BOTH[:1])
    )
    assert set(offers(resolved)) == {("p3.8xlarge", Market.ON_DEMAND)}
    assert any("g4dn.xlarge" in line and "not offered" in line for line in resolved.left_out)


def test_no_offer_at_all_is_an_error():
    with pytest.raises(InputError, match=r"offers\.quota\.g4dn\.xlarge: has a quota in other mark"):
        resolve(request(("g4dn.xlarge", Market.SPOT, 4), markets=BOTH[:1]))


def test_stated_prices_win():
    price = PriceEntry("p3.8xlarge", Market.SPOT, 3.67)
    found = offers(resolve(request(("p3.8xlarge", None, 2), prices=[price])))
    assert found["p3.8xlarge", Market.SPOT].usd_per_hour == 3.67
    assert found["p3.8xlarge", Market.SPOT].price_source == "stated in the job"
    listed = LISTED["p3.8xlarge", Market.ON_DEMAND][None]
    assert found["p3.8xlarge", Market.ON_DEMAND].usd_per_hour == listed.usd_per_hour


def test_a_type_without_a_price_in_one_market_is_left_out_there_and_named():
    price = PriceEntry("lab", Market.ON_DEMAND, 1.0)
    resolved = resolve(request(("lab", None, 2), prices=[price], declared=[LAB]))
    assert set(offers(resolved)) == {("lab", Market.ON_DEMAND)}
    (line,) = resolved.left_out
    assert line.startswith("offers.quota.lab: has no spot price in us-east-1 or elsewhere")
    assert "not offered as spot" in line


@pytest.mark.parametrize("name", builtin_instance_types())
def test_every_builtin_type_is_offered_exactly_where_it_has_a_price(name):
    cloud = builtin_instance_types()[name].cloud
    region = REGIONS[cloud]
    priced = {market for market in BOTH if (name, market) in LISTED}
    if not priced:
        with pytest.raises(InputError, match=f"has no on-demand or spot price in {region}"):
            resolve(request((name, None, 1), cloud=cloud, region=region))
        return
    resolved = resolve(request((name, None, 1), cloud=cloud, region=region))
    assert {offer.market for offer in resolved.offers} == priced
    unpriced = sorted(set(BOTH) - priced)
    assert len(resolved.left_out) == (1 if unpriced else 0)
    for line in resolved.left_out:
        assert f"has no {' or '.join(unpriced)} price in {region}" in line


def test_a_declared_type_replaces_the_builtin_one():
    mine = InstanceType("p3.8xlarge", "aws", "V100", 3, 16 * GIB, 8, 10.0)
    resolved = resolve(request(("p3.8xlarge", None, 1), declared=[mine]))
    assert {offer.instance_type.gpus for offer in resolved.offers} == {3}


def test_all_problems_are_reported_together():
    with pytest.raises(InputError) as caught:
        resolve(
            request(
                ("g4dn.xlrge", None, 1), ("lab", None, 1), ("zzz", None, 1),
                prices=[PriceEntry("p3.8xlrge", Market.SPOT, 1.0)], declared=[LAB],
            )
        )  # fmt: skip
    problems = {problem.where: problem.message for problem in caught.value.problems}
    assert problems.keys() == {
        "offers.prices.p3.8xlrge",
        "offers.quota.g4dn.xlrge",
        "offers.quota.lab",
        "offers.quota.zzz",
    }
    assert "did you mean g4dn.xlarge" in problems["offers.quota.g4dn.xlrge"]
    assert "did you mean" not in problems["offers.quota.zzz"]
    assert "state one: offers.prices: {lab: {on-demand: 1.23}}" in problems["offers.quota.lab"]


def test_another_cloud():
    with pytest.raises(InputError, match="is aws's, not gcp's"):
        resolve(request(("g4dn.xlarge", None, 1), cloud="gcp"))


def test_stated_prices_have_no_age():
    stated = [PriceEntry("g4dn.xlarge", market, 1.0) for market in BOTH]
    resolved = resolve(request(("g4dn.xlarge", None, 1), prices=stated))
    assert {offer.price_date for offer in resolved.offers} == {None}
    assert (resolved.notes, resolved.left_out) == ((), ())
