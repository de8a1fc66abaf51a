"""Makes namespaces, links and shapers as a network's spec says."""

from __future__ import annotations

import subprocess

from benchmarks.testbed import commands
from benchmarks.testbed.native import compiled
from benchmarks.testbed.spec import Network
from benchmarks.testbed.state import NAMESPACES

# Nothing but IPv4 on the links; no connection learns from an earlier one's losses; the kernel's own
# sizes of TCP's buffers (least, first, most), whatever this machine is tuned to.
_SETTINGS = """
set_to() { [ ! -e "/proc/sys/net/$1" ] || echo "$2" > "/proc/sys/net/$1"; }
set_to ipv6/conf/all/disable_ipv6 1 &&
set_to ipv4/tcp_no_metrics_save 1 &&
set_to ipv4/tcp_rmem "4096 131072 6291456" &&
set_to ipv4/tcp_wmem "4096 16384 4194304"
"""


def run_batch(
    tool: str, namespace: str | None, lines: list[str], *, keep_open: tuple[int, ...] = ()
) -> None:
    """Has `ip` or `tc` carry out lines, in a namespace or outside.

    Args:
        tool: which of the two.
        namespace: name of the namespace; None: the one of this process.
        lines: what to carry out.
        keep_open: descriptors that the tool inherits.

    Raises:
        RuntimeError: a line failed; says what the tool said.
    """
    where = [] if namespace is None else ["-n", namespace]
    done = subprocess.run(
        [tool, *where, "-batch", "-"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        pass_fds=keep_open,
    )
    if done.returncode:
        raise RuntimeError(f"{tool} {' '.join(where)}: {done.stderr.strip()}")


def make_namespaces(names: list[str], lock: int) -> None:
    """Makes network namespaces, under a lock, and settles what the kernel keeps for each."""
    run_batch("ip", None, [f"netns add {name}" for name in names], keep_open=(lock,))
    for name in names:
        settings = enter(name, "other", ["/bin/sh", "-c", _SETTINGS])
        done = subprocess.run(settings, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"settings of namespace {name}: {done.stderr.strip()}")


def enter(namespace: str, policy: str, argv: list[str], priority: int = 1) -> list[str]:
    """The command that runs another inside a namespace under a scheduling policy."""
    return [
        str(compiled("enter")),
        str(NAMESPACES / namespace),
        policy,
        str(priority),
        *argv,
    ]


def netem_works(namespace: str) -> bool:
    """Whether this kernel can delay packets by itself, tried on a namespace's loopback."""
    tried = subprocess.run(
        ["tc", "-n", namespace, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
        capture_output=True,
    )
    return tried.returncode == 0


def connect_by_bridges(
    network: Network, hosts: list[str], core: str, size: commands.Shape, *, delayed: bool
) -> None:
    """Cables from every host's namespace to bridges in the namespace `core`, shaped both ways."""
    run_batch("ip", core, commands.bridge_links(network, hosts))
    run_batch("tc", core, commands.bridge_shaping(network, size, delayed=delayed))


def configure_hosts(network: Network, hosts: list[str], size: commands.Shape) -> None:
    """Addresses, neighbours and the uplink's shaper of every host, whose device is there."""
    for index, namespace in enumerate(hosts):
        run_batch("ip", namespace, commands.host_links(network, index, size))
        run_batch("tc", namespace, [commands.uplink(network, index, size)])
