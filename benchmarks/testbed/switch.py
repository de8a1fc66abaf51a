"""The packet switch in user space, as the bed starts it and speaks to it."""

from __future__ import annotations

import subprocess
from typing import IO

from benchmarks.testbed import commands
from benchmarks.testbed.build import enter
from benchmarks.testbed.native import compiled
from benchmarks.testbed.spec import Network
from benchmarks.testbed.state import NAMESPACES

PRIORITY = 50  # above the ranks: a network does not wait for a computer


def switch_command(
    network: Network, hosts: list[str], core: str, policy: str, seed: int
) -> list[str]:
    """The command line of the switch; `hosts` and `core` are names of namespaces."""
    arguments = [
        str(seed),
        f"{network.delay_ms * 1e6:.0f}",
        f"{network.jitter_ms * 1e6:.0f}",
        str(commands.QUEUE_BYTES),
        f"{(network.core_mbit or 0) * 1e6:.0f}",
        f"{commands.ENDS_US * 1e3:.0f}",
    ]
    for host, namespace in zip(network.hosts, hosts, strict=True):
        arguments += [
            str(NAMESPACES / namespace),
            commands.DEVICE,
            str(network.racks.index(host.rack)),
            f"{host.rate_mbit * 1e6:.0f}",
        ]
    return enter(core, policy, [str(compiled("switch")), *arguments], PRIORITY)


def start_switch(command: list[str]) -> subprocess.Popen[str]:
    """Starts the switch and returns when every host has its device.

    Raises:
        RuntimeError: it ended before; says what it said.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if pipe(process.stdout).readline() != "ready\n":
        said = process.communicate()[1].strip()
        raise RuntimeError(f"the switch did not start: {said}")
    return process


def tell_rate(process: subprocess.Popen[str], index: int, rate_mbit: float) -> None:
    """Changes both rates of a host's link, from the next packet on."""
    stdin = pipe(process.stdin)
    stdin.write(f"{index} {rate_mbit * 1e6:.0f}\n")
    stdin.flush()


def pipe(stream: IO[str] | None) -> IO[str]:
    """A stream that was asked for as a pipe, and so is there."""
    assert stream is not None
    return stream
