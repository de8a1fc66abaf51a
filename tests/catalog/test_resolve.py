import pytest

from srifty.catalog import builtin_instance_types, resolve
from srifty.catalog.builtin import builtin_prices
from srifty.core import InstanceType, Market
from srifty.core.supply import PriceEntry, QuotaEntry, SupplyRequest
from srifty.errors import InputError
from srifty.units import GIB

BOTH = (Market.ON_DEMAND, Market.SPOT)
LISTED = {(p.instance_type, p.market): p for p in builtin_prices() if p.region == "us-east-1"}
LAB = InstanceType("lab", "aws", "T4", 2, 16 * GIB, 8, 10.0)


def request(*quota, markets=BOTH, prices=(), declared=(), cloud="aws", region="us-east-1"):
    entries = tuple(QuotaEntry(*entry) for entry in quota)
    return SupplyRequest(cloud, region, markets, entries, tuple(prices), tuple(declared))


def offers(resolved):
    return {(o.instance_type.name, o.market): o for o in resolved.offers}


def test_a_bare_quota_holds_for_each_market():
    found = offers(resolve(request(("g4dn.xlarge", None, 4))))
    assert {market for _, market in found} == set(BOTH)
    assert all(offer.quota == 4 for offer in found.values())
    for key, offer in found.items():
        assert offer.usd_per_hour == LISTED[key].usd_per_hour
        assert offer.price_source == LISTED[key].source
        assert offer.price_date == LISTED[key].date


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
    assert any("g4dn.xlarge" in note and "not offered" in note for note in resolved.notes)


def test_no_offer_at_all_is_an_error():
    with pytest.raises(InputError, match=r"offers\.quota\.g4dn\.xlarge: has a quota in other mark"):
        resolve(request(("g4dn.xlarge", Market.SPOT, 4), markets=BOTH[:1]))


def test_stated_prices_win():
    price = PriceEntry("p3.8xlarge", Market.SPOT, 3.67)
    found = offers(resolve(request(("p3.8xlarge", None, 2), prices=[price])))
    assert found["p3.8xlarge", Market.SPOT].usd_per_hour == 3.67
    assert found["p3.8xlarge", Market.SPOT].price_source == "stated in the job"
    listed = LISTED["p3.8xlarge", Market.ON_DEMAND]
    assert found["p3.8xlarge", Market.ON_DEMAND].usd_per_hour == listed.usd_per_hour


def test_a_type_without_a_price_in_one_market_is_left_out_there_and_named():
    price = PriceEntry("lab", Market.ON_DEMAND, 1.0)
    resolved = resolve(request(("lab", None, 2), prices=[price], declared=[LAB]))
    assert set(offers(resolved)) == {("lab", Market.ON_DEMAND)}
    assert "lab has no spot price in us-east-1: not offered there." in resolved.notes


@pytest.mark.parametrize("name", builtin_instance_types())
def test_every_builtin_type_is_offered_exactly_where_it_has_a_price(name):
    priced = {market for market in BOTH if (name, market) in LISTED}
    if not priced:
        with pytest.raises(InputError, match="has no on-demand or spot price in us-east-1; state"):
            resolve(request((name, None, 1)))
        return
    resolved = resolve(request((name, None, 1)))
    assert {offer.market for offer in resolved.offers} == priced
    for market in set(BOTH) - priced:
        assert f"{name} has no {market} price in us-east-1: not offered there." in resolved.notes


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


def test_the_age_of_builtin_prices_is_told_and_that_of_stated_ones_is_not():
    stated = [PriceEntry("g4dn.xlarge", market, 1.0) for market in BOTH]
    assert resolve(request(("g4dn.xlarge", None, 1), prices=stated)).notes == ()
    (note,) = resolve(request(("g4dn.xlarge", None, 1))).notes
    assert "snapshot" in note
    assert "offers.prices" in note
