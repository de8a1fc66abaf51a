"""The lines that `ip -batch` and `tc -batch` read to build a network. Nothing is run here."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.testbed.spec import ADDRESS_PREFIX, Network

DEVICE = "eth0"  # every host's link, inside its own namespace
CORE_BRIDGE = "br-core"
# What a queue in the network holds before it drops: more than one TCP window of 6 MB, so that a
# fast host that sends to a slow one loses nothing, and only flows that compete do.
QUEUE_BYTES = 8 << 20
# A sender's own queue never drops: TCP stops at a few packets per socket.
SENDER_QUEUE_BYTES = 16 << 20
LOW_RATE_MBIT = 200.0
# What sockets, stacks and devices at both ends add one way. A delay is what programs see, as it is
# between VMs, so this is taken off.
ENDS_US = 50.0


@dataclass(frozen=True)
class Shape:
    """Sizes for a token bucket; the burst has to exceed one large packet with its headers.

    Otherwise tbf cuts large packets up, which takes the CPU's time and loses a third of the rate.
    """

    gso_bytes: int  # largest packet that TCP hands to the device
    burst_bytes: int


LARGE = Shape(gso_bytes=65_536, burst_bytes=131_072)
# A burst passes unshaped. At low rates that shows: 128 KiB is 10 ms of 100 Mbit/s.
SMALL = Shape(gso_bytes=32_768, burst_bytes=40_960)


def fitting_shape(network: Network) -> Shape:
    """The sizes for all links of a network, by its slowest: its packets pass that one too."""
    rates = [host.rate_mbit for host in network.hosts]
    if network.core_mbit is not None and len(network.racks) > 1:
        rates.append(network.core_mbit)
    return SMALL if min(rates) <= LOW_RATE_MBIT else LARGE


def token_bucket(
    verb: str, device: str, rate_mbit: float, size: Shape, queue_bytes: int, place: str = "root"
) -> str:
    """A `tc` line that gives a device a token bucket; `verb` is `add` or `change`."""
    return (
        f"qdisc {verb} dev {device} {place} handle 2: tbf rate {round(rate_mbit * 1000)}kbit "
        f"burst {size.burst_bytes} limit {queue_bytes}"
    )


def mac(index: int) -> str:
    """Hardware address of a host by its place: the switch reads the last two bytes as its port."""
    return f"02:53:52:46:{index >> 8:02x}:{index & 255:02x}"


def port(index: int) -> str:
    """Name of a host's end in the namespace of the bridges."""
    return f"port{index}"


def bridge(network: Network, rack: str) -> str:
    """Name of a rack's bridge."""
    return f"br-{network.racks.index(rack)}"


def host_links(network: Network, index: int, size: Shape) -> list[str]:
    """`ip` lines for the inside of one host: its address, and whom it reaches.

    The neighbours are written down, so that nothing asks for them while something is timed, and
    TCP is reno: the one that every kernel lets a namespace use and that knows no rate of its own.
    No default route: nothing leaves the bed.
    """
    lines = [
        "link set lo up",
        f"link set {DEVICE} address {mac(index)} mtu {network.mtu} up",
        packet_size(size),
        f"addr add {ADDRESS_PREFIX}{index + 1}/32 dev {DEVICE}",
        f"route add {ADDRESS_PREFIX}0/24 dev {DEVICE} src {ADDRESS_PREFIX}{index + 1} congctl reno",
    ]
    lines += [
        f"neigh add {ADDRESS_PREFIX}{other + 1} lladdr {mac(other)} dev {DEVICE} nud permanent"
        for other in range(len(network.hosts))
        if other != index
    ]
    return lines


def packet_size(size: Shape) -> str:
    """The `ip` line for how large a packet TCP hands to a host's device, on new connections."""
    return f"link set {DEVICE} gso_max_size {size.gso_bytes}"


def uplink(network: Network, index: int, size: Shape, *, verb: str = "add") -> str:
    """The `tc` line for a host's way out.

    Behind the switch, which shapes exactly, this bucket is there to hold the sender back: TCP
    counts what lies in it, and would fill any queue further on. Its burst then changes nothing.
    """
    return token_bucket(verb, DEVICE, network.hosts[index].rate_mbit, size, SENDER_QUEUE_BYTES)


def downlink(network: Network, index: int, size: Shape, *, delayed: bool, verb: str = "add") -> str:
    """The `tc` line for a bridge's port to a host; `delayed` where netem holds packets first."""
    place = "parent 1:1" if delayed else "root"
    rate = network.hosts[index].rate_mbit
    return token_bucket(verb, port(index), rate, size, QUEUE_BYTES, place)


def netem(device: str, delay_ms: float) -> str:
    """The `tc` line that has the kernel delay what leaves through a device.

    On the bridge's side: in the sender's namespace TCP would count what is on its way as if it
    were still to be sent, and stop. Packets are counted without a limit that matters.
    """
    held_us = max(1.0, delay_ms * 1e3 - ENDS_US)
    return f"qdisc add dev {device} root handle 1: netem delay {held_us:.0f}us limit 1000000"


def bridge_links(network: Network, namespaces: list[str]) -> list[str]:
    """`ip` lines for the bridges and the cables to every host's namespace."""
    lines: list[str] = []
    racks = [bridge(network, rack) for rack in network.racks]
    for name in [*racks, *([CORE_BRIDGE] if len(racks) > 1 else [])]:
        lines += [f"link add name {name} type bridge", f"link set {name} mtu {network.mtu} up"]
    for index, (host, namespace) in enumerate(zip(network.hosts, namespaces, strict=True)):
        lines += [
            f"link add name {port(index)} type veth peer name {DEVICE} netns {namespace}",
            f"link set {port(index)} mtu {network.mtu} master {bridge(network, host.rack)} up",
        ]
    if len(racks) > 1:
        for name in racks:
            lines += [
                f"link add name {name}-up type veth peer name {name}-down",
                f"link set {name}-up mtu {network.mtu} master {name} up",
                f"link set {name}-down mtu {network.mtu} master {CORE_BRIDGE} up",
            ]
    return lines


def bridge_shaping(network: Network, size: Shape, *, delayed: bool) -> list[str]:
    """`tc` lines for the hosts' downlinks and, where it has a rate, the core."""
    lines: list[str] = []
    for index in range(len(network.hosts)):
        if delayed:
            lines.append(netem(port(index), network.delay_ms))
        lines.append(downlink(network, index, size, delayed=delayed))
    if network.core_mbit is not None and len(network.racks) > 1:
        rate = network.core_mbit
        lines += [
            token_bucket("add", f"{bridge(network, rack)}-{end}", rate, size, QUEUE_BYTES)
            for rack in network.racks
            for end in ("up", "down")
        ]
    return lines
