"""Links between local VMs: a network namespace for each VM, joined by a bridge; needs root.

An agent puts itself into a namespace without a name, which ends with the VM's last process. Its
only way out is a pair of devices whose other end, the port, is at the bridge of the run, in the
run's *switch*: a namespace with a name. A port goes with its VM, so a switch without ports belongs
to a run that is over, or was killed: whoever makes the next one removes it. A link is cut by
taking its port down.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from srifty.errors import InputError

DEVICE = "eth0"
_BRIDGE = "br0"
_PREFIX = "srifty-vms-"
_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_GET_FLAGS, _IS_RUNNING = 0x8913, 0x40
_REQUEST = struct.Struct("16sH14x")
_TRIES = 20
# A token bucket's burst has to exceed one large packet, or it takes packets apart, one by one. At
# low rates a burst shows, as it passes unshaped, so packets are kept smaller there.
_LOW_MBIT = 200.0
_LARGE, _SMALL = (65_536, 131_072), (32_768, 40_960)
_QUEUE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Link:
    """A VM's link.

    Attributes:
        switch: the namespace of the run's bridge.
        port: the link's end there.
        address: the VM's IPv4 address.
        mbit: Mbit/s each way; None: as fast as it goes.
    """

    switch: str
    port: str
    address: str
    mbit: float | None

    def document(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return asdict(self)


def link_of(run: Path, number: int, mbit: float | None) -> Link:
    """Returns the link of a run's VM.

    Args:
        run: the run's folder.
        number: of the VM, from 1.
        mbit: see `Link`.
    """
    name = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:12]
    high, low = divmod(number, 250)
    return Link(f"{_PREFIX}{name}", f"port{number}", f"10.83.{high}.{low + 1}", mbit)


def read_link(document: Mapping[str, Any] | None) -> Link | None:
    """Returns the link that `Link.document` described."""
    return None if document is None else Link(**document)


def check_links() -> None:
    """Checks that links can be made here.

    Raises:
        InputError: they cannot; says why.
    """
    if os.geteuid() != 0:
        raise InputError(
            "links between local VMs (link_mbit, act: cut) are network namespaces, which only root "
            "may make; run as root, or take them out of the scenario"
        )
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        raise InputError(f"links between local VMs need {' and '.join(missing)}: install iproute2")


def connect(link: Link) -> None:
    """Moves this process, which must have one thread, into a namespace with that link.

    Raises:
        OSError: the kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    sweep(but=link.switch)
    for further in reversed(range(_TRIES)):
        said = _join(link)
        if not said:
            break
        if not further:
            raise OSError(f"no link: {said}")
        time.sleep(0.1)  # another agent, or a sweep, was at it
    up = ["link set lo up", f"addr add {link.address}/16 dev {DEVICE}", f"link set {DEVICE} up"]
    gso_bytes, burst_bytes = _SMALL if (link.mbit or _LOW_MBIT + 1) <= _LOW_MBIT else _LARGE
    said = _batch("ip", None, [f"link set {DEVICE} gso_max_size {gso_bytes}", *up])
    if not said and link.mbit is not None:
        shape = f"rate {link.mbit * 1000:.0f}kbit burst {burst_bytes} limit {_QUEUE_BYTES}"
        said = _batch("tc", None, [f"qdisc add dev {DEVICE} root tbf {shape}"])
        said = said or _batch("tc", link.switch, [f"qdisc add dev {link.port} root tbf {shape}"])
    if said:
        raise OSError(f"no link: {said}")


def _join(link: Link) -> str:
    """Plugs this namespace into the switch, which is made if need be; returns what went wrong."""
    _call("ip", "netns", "add", link.switch)  # is there, perhaps
    if _batch("ip", link.switch, ["link show"]):
        _call("ip", "netns", "del", link.switch)  # half made by a process that was killed
        return f"{link.switch} is no namespace"
    _call("ip", "-n", link.switch, "link", "add", _BRIDGE, "type", "bridge")
    _call("ip", "-n", link.switch, "link", "del", link.port)  # of an agent that was killed
    _call("ip", "link", "del", DEVICE)
    cable = f"link add {DEVICE} type veth peer name {link.port} netns {link.switch}"
    return _batch("ip", None, [cable]) or _batch(
        "ip",
        link.switch,
        [f"link set {_BRIDGE} up", f"link set {link.port} master {_BRIDGE} up"],
    )


def is_up() -> bool:
    """Whether this process's link carries anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _GET_FLAGS, _REQUEST.pack(DEVICE.encode(), 0))
    return bool(_REQUEST.unpack(answer)[1] & _IS_RUNNING)


def cut(link: Link, *, restore: bool = False) -> bool:
    """Takes a link down, or up again; returns whether it was there."""
    return _call("ip", "-n", link.switch, "link", "set", link.port, "up" if restore else "down")


def sweep(*, but: str = "") -> None:
    """Removes the switches that no VM is connected to.

    Args:
        but: one that stays.
    """
    for path in sorted(_NAMESPACES.glob(f"{_PREFIX}*")):
        if path.name == but:
            continue
        shown = subprocess.run(  # noqa: S603 - a namespace of ours, by its name
            ["ip", "-n", path.name, "-o", "link", "show", "type", "veth"],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if not shown.stdout.strip():
            _call("ip", "netns", "del", path.name)


def _call(*command: str) -> bool:
    """Runs a command that may fail; returns whether it did not."""
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - ip's own words
    return done.returncode == 0


def _batch(tool: str, namespace: str | None, lines: list[str]) -> str:
    """Has `ip` or `tc` carry out lines; returns what it said where one failed."""
    where = [] if namespace is None else ["-n", namespace]
    done = subprocess.run(  # noqa: S603 - lines of ours
        [tool, *where, "-batch", "-"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() or "failed" if done.returncode else ""
