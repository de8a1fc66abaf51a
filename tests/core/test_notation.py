import pytest
from hypothesis import given

from srifty.core import ClusterConfig, Location, Market, Offer, VmGroup, format_config, parse_config
from srifty.errors import InputError, NotationError
from tests.builders import make_offer, make_type

from .strategies import OFFERS, cluster_configs

P3 = make_offer(make_type("p3.8xlarge", gpus=4))
G3_SPOT = make_offer(make_type("g3.8xlarge", gpus=2), market=Market.SPOT)


@given(cluster_configs)
def test_what_is_printed_parses_to_the_same(config):
    # A VM whose samples are fewer than its GPUs names the GPUs, so nothing has to be guessed.
    assert parse_config(format_config(config), OFFERS) == config


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("1p3.8xlarge@512", [VmGroup(P3, 1, 512, 4)]),
        ("8g3.8xlarge (spot)@64", [VmGroup(G3_SPOT, 8, 64, 2)]),
        ("8g3.8xlarge@64", [VmGroup(G3_SPOT, 8, 64, 2)]),  # its only market
        ("1p3.8xlarge:2gpu@2", [VmGroup(P3, 1, 2, 2)]),
        ("1p3.8xlarge:1gpus@2", [VmGroup(P3, 1, 2, 1)]),
        ("1p3.8xlarge@2", [VmGroup(P3, 1, 2, 2)]),  # as many GPUs as there are samples
        ("3p3.8xlarge@512x4", [VmGroup(P3, 3, 512, 4, 4)]),
        ("1p3.8xlarge@37 + 1p3.8xlarge@36", [VmGroup(P3, 1, 37, 4), VmGroup(P3, 1, 36, 4)]),
        ("  1 p3.8xlarge @ 512  +   2g3.8xlarge (spot) @64 ",
         [VmGroup(P3, 1, 512, 4), VmGroup(G3_SPOT, 2, 64, 2)]),
        ("1p3.8xlarge@512+2g3.8xlarge(SPOT)@64",
         [VmGroup(P3, 1, 512, 4), VmGroup(G3_SPOT, 2, 64, 2)]),
        ("1p3.8xlarge : 2 gpus @ 1024 x 2", [VmGroup(P3, 1, 1024, 2, 2)]),
    ],
)  # fmt: skip
def test_parsed(text, groups):
    assert parse_config(text, [P3, G3_SPOT]) == ClusterConfig(tuple(groups))


def test_a_type_without_a_market_takes_its_on_demand_offer():
    spot = make_offer(make_type("p3.8xlarge", gpus=4), market=Market.SPOT)
    assert parse_config("1p3.8xlarge@4", [spot, P3]).groups[0].offer is P3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["<num><instance>@<samples per VM>", "8g3.8xlarge@64"]),
        ("p3.8xlarge@512", ["'p3.8xlarge@512' is not a VM group"]),
        ("1p3.8xlarge", ["'1p3.8xlarge' is not a VM group"]),
        ("1p3.8xlarge@512, 1g3.8xlarge@64", ["join groups with ' + '"]),
        ("1p3.8xlarge@-4", ["is not a VM group"]),
        ("1p3.8xlarge@5.5", ["is not a VM group"]),
        ("1p4.8xlarge@512", ["'p4.8xlarge' is not among the offers", "g3.8xlarge, p3.8xlarge"]),
        ("1p3.8xlarge (spot)@512", ["cannot be had as spot", "offered as: on-demand"]),
        ("1p3.8xlarge (weekly)@512", ["cannot be had as weekly"]),
        ("0p3.8xlarge@512", ["count", "at least 1", "not 0"]),
        ("1p3.8xlarge@0", ["at least 1", "not 0"]),
        ("1p3.8xlarge:5gpu@512", ["p3.8xlarge has 4 GPUs", "5"]),
        ("1p3.8xlarge:4gpu@3", ["3 samples cannot be dealt to 4 GPUs", "at most 3 GPUs"]),
        ("1p3.8xlarge@8x3", ["a worker with 2 samples cannot make 3 passes"]),
        ("9" * 40 + "p3.8xlarge@8", ["count must be at most"]),
    ],
)
def test_refused(text, words):
    with pytest.raises(NotationError) as caught:
        parse_config(text, [P3, G3_SPOT])
    for word in words:
        assert word in str(caught.value)


def test_two_spot_and_reserved_offers_need_the_market():
    reserved = make_offer(make_type("g3.8xlarge", gpus=2), market=Market.RESERVED)
    with pytest.raises(NotationError, match="without a market; it is offered as: reserved, spot"):
        parse_config("1g3.8xlarge@64", [G3_SPOT, reserved])


def test_all_bad_groups_are_reported_together():
    with pytest.raises(NotationError) as caught:
        parse_config("1p3.8xlarge@512 + nonsense + 1p9.large@4 + 2p3.8xlarge:9gpu@9", [P3])
    message = str(caught.value)
    assert "'nonsense'" in message
    assert "'p9.large'" in message
    assert "9 of them" in message


def test_a_notation_error_is_an_input_error():
    assert issubclass(NotationError, InputError)


ZONED = [
    Offer(make_type("g4dn.xlarge"), market, Location("r", zone), usd, 4)
    for market in (Market.ON_DEMAND, Market.SPOT)
    for zone, usd in (("z-1", 2.0), ("z-2", 1.0))
]


def test_a_configuration_that_spans_zones_names_them_both_ways():
    config = ClusterConfig(tuple(VmGroup(offer, 2, 8, 1) for offer in ZONED))
    text = format_config(config)
    assert text.startswith("2g4dn.xlarge (on-demand, z-1)@8 + 2g4dn.xlarge (on-demand, z-2)@8")
    assert text.endswith("2g4dn.xlarge (spot, z-1)@8 + 2g4dn.xlarge (spot, z-2)@8")
    assert parse_config(text, ZONED) == config


def test_one_zone_is_not_named_and_the_cheapest_is_taken():
    config = ClusterConfig((VmGroup(ZONED[3], 2, 8, 1),))
    assert format_config(config) == "2g4dn.xlarge (spot)@8"
    assert parse_config("2g4dn.xlarge (spot)@8", ZONED) == config


def test_a_zone_without_the_offer_is_named():
    with pytest.raises(NotationError, match="cannot be had as spot in z-3; it is offered in: z-1"):
        parse_config("2g4dn.xlarge (spot, z-3)@8", ZONED)


def test_a_plus_in_a_name_joins_nothing():
    n1 = make_offer(make_type("n1-standard-4+1xV100", gpus=1))
    config = parse_config("2n1-standard-4+1xV100@8+1n1-standard-4+1xV100@4", [n1])
    assert config == ClusterConfig((VmGroup(n1, 2, 8, 1), VmGroup(n1, 1, 4, 1)))
