"""What the bed needs of the machine, checked before anything is made."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

TUN = Path("/dev/net/tun")
_TOOLS = {
    "ip": "`ip` is not found: install iproute2 (Debian, Ubuntu: apt install iproute2).",
    "tc": "`tc` is not found: install iproute2 (Fedora: dnf install iproute-tc).",
    "cc": "`cc` is not found: install a C compiler (Debian, Ubuntu: apt install gcc libc6-dev).",
}


def preflight() -> list[str]:
    """What is missing, a sentence each that says what to do; empty where the bed can be built."""
    if os.uname().sysname != "Linux":
        return ["The emulated cluster is made of Linux network namespaces: run it on Linux."]
    missing = [sentence for tool, sentence in _TOOLS.items() if shutil.which(tool) is None]
    if os.geteuid() != 0:
        missing.append(
            "Network namespaces and traffic shaping need root: run this as root "
            "(in a container: with --privileged)."
        )
        return missing  # what follows cannot be told without
    if not missing:
        missing += _refused()
    if not _tun_opens():
        missing.append(
            f"{TUN} cannot be opened, which links with a delay need: load it with `modprobe tun`, "
            f"or make it with `mkdir -p /dev/net && mknod {TUN} c 10 200`."
        )
    return missing


def _tun_opens() -> bool:
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError:
        return False
    return True


def _refused() -> list[str]:
    """Whether the kernel lets this process make a namespace with a shaped link, by doing it."""
    name = f"sriftytry-{os.getpid()}"
    steps = [
        (f"ip netns add {name}", "network namespaces"),
        (
            f"ip -n {name} link add name end0 type veth peer name end1",
            "veth devices (kernel option CONFIG_VETH)",
        ),
        (
            f"ip -n {name} link add name bridge0 type bridge",
            "bridges (kernel option CONFIG_BRIDGE)",
        ),
        (
            f"tc -n {name} qdisc add dev end0 root tbf rate 1mbit burst 9000 limit 9000",
            "token-bucket shaping (kernel option CONFIG_NET_SCH_TBF)",
        ),
    ]
    try:
        for command, what in steps:
            done = subprocess.run(command.split(), capture_output=True, text=True)
            if done.returncode:
                said = done.stderr.strip().splitlines()
                return [f"This machine refuses {what}: {said[-1] if said else 'no reason given'}."]
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return []
