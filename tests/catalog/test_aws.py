from datetime import UTC, datetime

import pytest

from srifty.catalog import aws
from srifty.catalog.aws_calls import QUOTA_CODES, read_facts, read_on_demand, read_spot
from srifty.catalog.builtin import builtin_instance_types
from srifty.core.offers import Market
from srifty.errors import CloudRefused, InputError
from tests.catalog.aws_fakes import (
    FakeAws,
    facts,
    failing,
    of_pages,
    price_list,
    product,
    quota_values,
    spot,
)

NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
DATE = "2026-07-20T12:00:00+00:00"
TYPES = ("g4dn.xlarge", "p3.8xlarge")
GPUS = {"g4dn.xlarge": 1, "p3.8xlarge": 4, "p5.48xlarge": 8}
KNOWN = builtin_instance_types()


def whole(**changed):
    answers = {
        "describe_instance_types": of_pages(
            {"InstanceTypes": [facts("g4dn.xlarge", "T4", 1, 16384, 4)]},
            {"InstanceTypes": [facts("p3.8xlarge", "V100", 4, 16384, 32, 10.0)]},
        ),
        "describe_spot_price_history": of_pages(
            {"SpotPriceHistory": [spot("g4dn.xlarge", "us-east-1a", "0.203900")]},
            {"SpotPriceHistory": [spot("p3.8xlarge", "us-east-1b", "3.67")]},
        ),
        "get_products": price_list({"g4dn.xlarge": "0.526", "p3.8xlarge": "12.24"}),
    }
    return FakeAws(**(answers | changed))


def refresh(client, types=TYPES, region="us-east-1", known=KNOWN, **other):
    return aws.refresh(region, types, now=NOW, known=known, client=client, **other)


def test_refresh_gives_prices_of_both_markets_and_the_facts():
    seen = []
    answer = refresh(whole(), progress=lambda done, total: seen.append((done, total)))
    assert {(p.instance_type, p.market, p.zone, p.usd_per_hour, p.date) for p in answer.prices} == {
        ("g4dn.xlarge", Market.SPOT, "us-east-1a", 0.2039, DATE),
        ("p3.8xlarge", Market.SPOT, "us-east-1b", 3.67, DATE),
        ("g4dn.xlarge", Market.ON_DEMAND, None, 0.526, DATE),
        ("p3.8xlarge", Market.ON_DEMAND, None, 12.24, DATE),
    }
    assert [(t.name, t.gpu, t.gpus, t.rated_gbit_per_s) for t in answer.types] == [
        ("g4dn.xlarge", "T4", 1, 5.0),
        ("p3.8xlarge", "V100", 4, 10.0),
    ]
    assert answer.failures == ()
    assert answer.rejected == ()
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_dry_form_is_what_is_asked():
    client = whole()
    refresh(client, (*TYPES, "g4dn.xlarge"))
    assert tuple(client.calls) == aws.refresh_calls("us-east-1", TYPES, NOW)
    quota_client = FakeAws(**quota_values({q.code: 8.0 for q in QUOTA_CODES}))
    aws.quotas("us-east-1", now=NOW, client=quota_client)
    assert tuple(quota_client.calls) == aws.quota_calls("us-east-1")


def test_many_types_are_asked_in_batches_that_ec2_takes():
    calls = aws.refresh_calls("us-east-1", [f"g{n}.x" for n in range(250)], NOW)
    batches = [call.request["Filters"][0]["Values"] for call in calls if call.service == "ec2"]
    assert [len(batch) for batch in batches] == [100, 100, 50, 100, 100, 50]


@pytest.mark.parametrize(
    ("operation", "part", "left"),
    [
        ("describe_instance_types", "instance types", 4),
        ("describe_spot_price_history", "spot prices", 2),
    ],
)
def test_a_failing_part_is_named_and_the_others_are_kept(operation, part, left):
    half = {"SpotPriceHistory": [spot("g4dn.xlarge", "us-east-1a", "0.2")], "InstanceTypes": []}
    answer = refresh(whole(**{operation: failing("RequestLimitExceeded", half)}))
    assert [(f.part, f.denied) for f in answer.failures] == [(part, False)]
    assert "RequestLimitExceeded" in answer.failures[0].reason
    assert len(answer.prices) == left


def test_a_denied_price_list_is_named_per_type():
    client = whole()
    del client.answers["get_products"]
    answer = refresh(client)
    assert [f.part for f in answer.failures] == [
        "on-demand price of g4dn.xlarge",
        "on-demand price of p3.8xlarge",
    ]
    assert all(f.denied for f in answer.failures)
    assert {p.market for p in answer.prices} == {Market.SPOT}


def test_an_answer_that_does_not_read_is_a_failure_not_a_crash():
    lacking = {"InstanceType": "g4dn.xlarge", "ProductDescription": "Linux/UNIX"}
    odd = of_pages({"SpotPriceHistory": [lacking]})
    broken = of_pages({"PriceList": ["{not json"]})
    answer = refresh(whole(describe_spot_price_history=odd, get_products=broken))
    assert len(answer.failures) == 3
    assert all("the answer does not read" in f.reason for f in answer.failures)


def test_no_part_answered_is_a_refusal():
    with pytest.raises(CloudRefused, match=r"AccessDenied.*The catalog is as it was"):
        refresh(FakeAws())
    with pytest.raises(CloudRefused, match="AccessDenied"):
        aws.quotas("us-east-1", now=NOW, client=FakeAws())


def test_regions_that_are_none_and_unknown_ones():
    with pytest.raises(InputError, match="is no region"):
        refresh(whole(), region="us east")
    with pytest.raises(CloudRefused, match="us-mars-1"):
        refresh(whole(), region="us-mars-1")
    with pytest.raises(InputError, match="at least one instance type"):
        refresh(whole(), types=())


def test_the_newest_spot_price_of_each_zone_counts():
    entries = [
        spot("g4dn.xlarge", "us-east-1a", "0.3", hour=5),
        spot("g4dn.xlarge", "us-east-1a", "0.2", hour=3),
        spot("g4dn.xlarge", "us-east-1b", "0.4", hour=1),
        spot("g4dn.xlarge", "us-east-1b", "0.9", hour=9, system="Windows"),
    ]
    prices, rejected = read_spot([{"SpotPriceHistory": entries}], "us-east-1", GPUS, DATE)
    assert [(p.zone, p.usd_per_hour) for p in prices] == [("us-east-1a", 0.3), ("us-east-1b", 0.4)]
    assert rejected == ()


def test_absurd_and_unknown_spot_prices_are_rejected_with_reasons():
    entries = [
        spot("g4dn.xlarge", "us-east-1a", "0.00001"),
        spot("m5.large", "us-east-1a", "0.04"),
    ]
    prices, rejected = read_spot([{"SpotPriceHistory": entries}], "us-east-1", GPUS, DATE)
    assert prices == ()
    assert "below 0.005 USD per GPU" in rejected[0].reason
    assert "not known as a type" in rejected[1].reason


def on_demand(*items, kind="p5.48xlarge"):
    return read_on_demand([{"PriceList": list(items)}], kind, "us-east-1", GPUS, DATE)


def test_a_capacity_block_never_makes_a_free_p5():
    free = product("p5.48xlarge", "0.0000000000", market="CapacityBlock")
    (price,), rejected = on_demand(free, product("p5.48xlarge", "55.04"))
    assert price.usd_per_hour == 55.04
    assert rejected == ()
    assert on_demand(free) == ((), on_demand(free)[1])
    assert "not in the price list" in on_demand(free)[1][0].reason
    unmarked = product("p5.48xlarge", "0.0000000000", market=None)
    assert on_demand(unmarked)[0] == ()
    assert "zero" in on_demand(unmarked)[1][0].reason


@pytest.mark.parametrize(
    "attributes",
    [
        {"operatingSystem": "Windows"},
        {"tenancy": "Dedicated"},
        {"preInstalledSw": "SQL Std"},
        {"capacitystatus": "UnusedCapacityReservation"},
        {"regionCode": "us-west-2"},
        {"instanceType": "p5.4xlarge"},
    ],
)
def test_other_products_do_not_count(attributes):
    (price,), _ = on_demand(
        product("p5.48xlarge", "55.04"), product("p5.48xlarge", "9", **attributes)
    )
    assert price.usd_per_hour == 55.04


def test_contradicting_list_prices_are_rejected_equal_ones_are_one():
    same = on_demand(product("p5.48xlarge", "55.04"), product("p5.48xlarge", "55.0400000000"))
    assert [p.usd_per_hour for p in same[0]] == [55.04]
    prices, (rejected,) = on_demand(product("p5.48xlarge", "55.04"), product("p5.48xlarge", "31"))
    assert prices == ()
    assert "several prices: 31, 55.04" in rejected.reason


def test_facts_of_types_that_we_cannot_use_are_left_out():
    part = facts("g6f.large", "L4", 1, 22888, 2)
    part["GpuInfo"]["Gpus"][0]["GpuPartitionSize"] = 0.125
    entries = [
        part,
        facts("g4ad.xlarge", "Radeon Pro V520", 1, 8192, 4),
        {"InstanceType": "m5.large", "VCpuInfo": {"DefaultVCpus": 2}},
        facts("p3dn.24xlarge", "V100", 8, 32768, 96, None),
    ]
    (kind,) = read_facts([{"InstanceTypes": entries}], DATE)
    assert (kind.name, kind.gpu, kind.rated_gbit_per_s) == ("p3dn.24xlarge", "V100-32GB", None)


def test_quotas_are_the_accounts_own_or_else_the_default():
    own = {"L-DB2E81BA": 32.0, "L-417A185B": 64.0, "L-3819A6DF": 120.0}
    answer = aws.quotas("us-east-1", now=NOW, client=FakeAws(**quota_values(own)))
    assert {(q.pool, q.market, q.vcpus) for q in answer.quotas} == {
        ("G", Market.ON_DEMAND, 32),
        ("P", Market.ON_DEMAND, 64),
        ("G", Market.SPOT, 120),
        ("P", Market.SPOT, 0),
        ("P5", Market.SPOT, 0),
    }
    assert [("default" in q.source) for q in answer.quotas] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("key AKIAIOSFODNN7EXAMPLE is bad", "key *** is bad"),
        ("via http://me:secret@proxy:80/", "via http://***proxy:80/"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "***"),
        ("two\n lines", "two lines"),
    ],
)
def test_secrets_never_reach_messages(said, kept):
    assert aws.scrub(said) == kept


def test_without_boto3_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    monkeypatch.setitem(__import__("sys").modules, "boto3.session", None)
    with pytest.raises(InputError, match=r"install srifty\[aws\]"):
        aws.BotoAws()
