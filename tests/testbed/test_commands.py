import dataclasses
import re

import pytest
from benchmarks.testbed import commands
from benchmarks.testbed.spec import Host, Network
from hypothesis import given
from hypothesis import strategies as st

PAIR = Network((Host("a", 400), Host("b", 100)), delay_ms=1)
RACKS = Network((Host("a", 400), Host("b", 400, "b"), Host("c", 400, "b")), core_mbit=150)


def burst_bytes(line: str) -> int:
    found = re.search(r" burst (\d+) ", line)
    assert found
    return int(found[1])


@given(
    st.lists(st.floats(0.1, 100_000), min_size=1, max_size=20),
    st.none() | st.floats(0.1, 100_000),
    st.integers(1280, 9000),
)
def test_every_burst_holds_the_largest_packet_with_all_its_headers(rates, core_mbit, mtu):
    hosts = tuple(Host(f"h{k}", rate, "ab"[k % 2]) for k, rate in enumerate(rates))
    network = Network(hosts, core_mbit=core_mbit, mtu=mtu)
    size = commands.fitting_shape(network)
    headers = 14 + 20 + 60
    on_wire = size.gso_bytes + headers * (1 + size.gso_bytes // (mtu - headers + 14))
    lines = [commands.uplink(network, index, size) for index in range(len(hosts))]
    lines += commands.bridge_shaping(network, size, delayed=False)
    assert min(burst_bytes(line) for line in lines) >= on_wire


@pytest.mark.parametrize(("slowest", "size"), [(200, commands.SMALL), (201, commands.LARGE)])
def test_packets_are_small_where_a_burst_would_show(slowest, size):
    network = Network((Host("a", 800), Host("b", slowest)))
    assert commands.fitting_shape(network) == size


def test_a_host_reaches_its_network_and_nothing_else():
    lines = commands.host_links(PAIR, 1, commands.LARGE)
    assert [line for line in lines if line.startswith("route")] == [
        "route add 10.77.0.0/24 dev eth0 src 10.77.0.2 congctl reno"
    ]
    assert not [line for line in lines if "default" in line]
    assert [line for line in lines if line.startswith("neigh")] == [
        f"neigh add 10.77.0.1 lladdr {commands.mac(0)} dev eth0 nud permanent"
    ]


@given(st.integers(0, 199))
def test_the_switch_finds_a_port_in_the_last_bytes_of_an_address(index):
    high, low = commands.mac(index).split(":")[-2:]
    assert int(high, 16) * 256 + int(low, 16) == index
    assert int(commands.mac(index)[:2], 16) & 3 == 2  # one host's, and made up


def test_racks_have_a_bridge_each_and_a_shaped_core():
    links = commands.bridge_links(RACKS, ["x", "y", "z"])
    assert {line for line in links if "type bridge" in line} == {
        "link add name br-0 type bridge",
        "link add name br-1 type bridge",
        "link add name br-core type bridge",
    }
    core = [
        line
        for line in commands.bridge_shaping(RACKS, commands.SMALL, delayed=False)
        if "150000kbit" in line
    ]
    assert [re.search(r"dev (\S+)", line)[1] for line in core] == [
        "br-0-up",
        "br-0-down",
        "br-1-up",
        "br-1-down",
    ]


def test_one_rack_has_no_core():
    alone = dataclasses.replace(RACKS, hosts=RACKS.hosts[1:])
    assert not [line for line in commands.bridge_links(alone, ["y", "z"]) if "core" in line]
    assert len(commands.bridge_shaping(alone, commands.SMALL, delayed=False)) == 2


def test_netem_holds_packets_before_the_downlink_shapes_them():
    lines = commands.bridge_shaping(PAIR, commands.SMALL, delayed=True)
    assert lines[:2] == [
        "qdisc add dev port0 root handle 1: netem delay 950us limit 1000000",
        "qdisc add dev port0 parent 1:1 handle 2: tbf rate 400000kbit burst 40960 limit 8388608",
    ]
