import re

import pytest
from benchmarks.testbed.spec import Host, Network


def test_addresses_follow_the_order_of_hosts():
    network = Network((Host("one", 100), Host("two", 50.5, "b"), Host("three", 1, "b")))
    assert [network.address(host.name) for host in network.hosts] == [
        "10.77.0.1",
        "10.77.0.2",
        "10.77.0.3",
    ]
    assert network.racks == ("a", "b")


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-dash", "a" * 25, "a b", "../x"])
def test_names_that_no_namespace_may_have(name):
    with pytest.raises(ValueError, match=re.escape(f"host name {name!r}")):
        Host(name, 100)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e6])
def test_rates_that_no_link_has(rate):
    with pytest.raises(ValueError, match=r"rate_mbit of h is .*: give 0\.1 to 100000"):
        Host("h", rate)
    with pytest.raises(ValueError, match="core_mbit"):
        Network((Host("h", 1),), core_mbit=rate)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay_ms": -1}, "delay_ms -1"),
        ({"delay_ms": float("nan")}, "delay_ms nan"),
        ({"jitter_ms": 1}, "needs a delay_ms"),
        ({"mtu": 100}, "mtu 100"),
        ({"hosts": ()}, "0 hosts"),
        ({"hosts": (Host("h", 1), Host("h", 2))}, "named twice: h"),
    ],
)
def test_networks_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Network(**{"hosts": (Host("h", 1),), **options})


def test_an_unknown_host_is_told_with_those_there_are():
    with pytest.raises(ValueError, match="no host 'c'; there are a, b"):
        Network((Host("a", 1), Host("b", 1))).address("c")
