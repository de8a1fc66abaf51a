from dataclasses import replace

import pytest

from srifty.catalog import builtin_instance_types, resolve
from srifty.catalog.builtin import builtin_prices
from srifty.catalog.price import Price
from srifty.catalog.store import TypeRow
from srifty.core import InstanceType, Market
from srifty.core.offers import QuotaPool, QuotaUnit
from srifty.core.supply import (
    OwnedEntry,
    PoolEntry,
    PriceEntry,
    QuotaEntry,
    ReservedEntry,
    SupplyRequest,
)
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


SPOT = (Market.SPOT,)
ZONES = {zone: p.usd_per_hour for zone, p in LISTED["g4dn.xlarge", Market.SPOT].items()}


def test_zones_limit_the_offers_and_regional_prices_hold_in_each():
    some = tuple(ZONES)[:2]
    asked = replace(request(("g4dn.xlarge", None, 4)), zones=some)
    found = {(o.market, o.location.zone): o.usd_per_hour for o in resolve(asked).offers}
    assert found == {
        **{(Market.SPOT, zone): ZONES[zone] for zone in some},
        **{(Market.ON_DEMAND, zone): 0.526 for zone in some},
    }


def test_a_price_in_other_zones_alone_is_said():
    asked = replace(request(("g4dn.xlarge", None, 4), markets=SPOT), zones=("use1-az9",))
    with pytest.raises(InputError, match=r"has no spot price in use1-az9, only in other zones"):
        resolve(asked)


def test_a_price_in_another_region_is_said_but_not_taken():
    here, there = (Price("aws", "lab", Market.SPOT, region, None, 1.0, "2026-07-20", "file")
                   for region in ("us-east-1", "eu-west-1"))  # fmt: skip
    asked = request(("lab", None, 1), ("g4dn.xlarge", None, 1), markets=SPOT, declared=[LAB])
    resolved = resolve(asked, [there])
    assert {o.instance_type.name for o in resolved.offers} == {"g4dn.xlarge"}
    (line,) = resolved.left_out
    assert "lab: has no spot price in us-east-1, only in eu-west-1: not offered as spot" in line
    assert resolve(asked, [here, there]).left_out == ()


def test_pools_in_vcpus_and_how_they_were_read():
    pools = (PoolEntry(Market.SPOT, "G", 120), PoolEntry(Market.ON_DEMAND, "P", 64))
    asked = replace(request(("g4dn.xlarge", None, None), markets=SPOT), vcpu_quota=pools)
    resolved = resolve(asked)
    assert {o.pools for o in resolved.offers} == {(QuotaPool("spot G", 120),)}
    assert {o.most_vms for o in resolved.offers} == {30}
    assert resolved.notes == (
        "Quotas in vCPUs, shared by the types of a family: spot G 120, on-demand P 64; others are "
        "in VMs.",
        "No offered type counts against: on-demand P.",
    )


def test_vcpus_without_a_pool_is_an_error():
    with pytest.raises(InputError, match="has neither a number of VMs nor a vCPU quota for spot G"):
        resolve(request(("g4dn.xlarge", None, None), markets=SPOT))


def test_reserved_and_owned_machines():
    asked = SupplyRequest(
        "aws", "us-east-1", (), (),
        reserved=(
            ReservedEntry("p3.8xlarge", 2, ends_in_s=60.0, zone="use1-az1"),
            ReservedEntry("p3.8xlarge", 1, starts_in_s=5.0),
            ReservedEntry("p3.8xlarge", 1, ends_in_s=0.0),
        ),
        owned=(OwnedEntry("lab", "T4", 8, 64, 2), OwnedEntry("one", "T4", 1, 8, 1, 0.5)),
    )  # fmt: skip
    resolved = resolve(asked)
    reserved, lab, one = resolved.offers
    assert (reserved.market, reserved.quota, reserved.ends_in_s) == (Market.RESERVED, 2, 60.0)
    assert (reserved.usd_per_hour, str(reserved.location)) == (0.0, "use1-az1")
    assert (lab.market, lab.quota, str(lab.location)) == (Market.OWNED, 2, "on site")
    assert lab.instance_type.gpu_memory_bytes == 16 * GIB  # as the T4's data sheet says
    assert (one.usd_per_hour, one.billing.minimum_s) == (0.5, 0.0)
    assert resolved.left_out == (
        "The reservation of p3.8xlarge has not begun: not offered.",
        "The reservation of p3.8xlarge is over: not offered.",
    )
    (note,) = resolved.notes
    assert "lab: no network speed is given (rated_gbit_per_s); 10 Gbit/s are assumed" in note


def test_types_and_prices_of_another_cloud_do_not_stand_in():
    theirs = TypeRow("other", "g4dn.xlarge", "T4", 9, 16 * GIB, 4, "file", 10.0)
    price = Price("other", "g4dn.xlarge", Market.SPOT, "us-east-1", None, 0.09, "2026", "file")
    resolved = resolve(request(("g4dn.xlarge", None, 1)), [price], [theirs])
    assert {o.instance_type.gpus for o in resolved.offers} == {1}
    assert min(o.usd_per_hour for o in resolved.offers) == min(ZONES.values())
    asked = request(("g4dn.xlarge", None, 1), cloud="other", markets=SPOT)
    (offer,) = resolve(asked, [price], [theirs]).offers
    assert (offer.instance_type.gpus, offer.usd_per_hour) == (9, 0.09)
