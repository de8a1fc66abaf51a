"""What an emulated cluster is to look like: its VMs and the network between them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

MAX_HOSTS = 200
ADDRESS_PREFIX = "10.77.0."  # reserved addresses that exist inside the bed's namespaces only


@dataclass(frozen=True)
class Host:
    """One VM.

    Attributes:
        name: unique in its network; lower-case letters, digits and dashes, at most 24.
        rate_mbit: rate of its link in Mbit/s, each way, above 0.
        rack: hosts of the same rack reach each other without the core link.
    """

    name: str
    rate_mbit: float
    rack: str = "a"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,23}", self.name):
            raise ValueError(
                f"host name {self.name!r}: use up to 24 lower-case letters, digits and dashes"
            )
        check_rate(f"rate_mbit of {self.name}", self.rate_mbit)


@dataclass(frozen=True)
class Network:
    """The VMs and what lies between them.

    Attributes:
        hosts: the VMs; the k-th (from 0) has the address 10.77.0.(k+1).
        delay_ms: one-way delay between programs of any two hosts, in ms; a round trip takes it
            twice. 0: what the machine itself needs, some 0.05 ms.
        jitter_ms: standard deviation of that delay, in ms, order within a pair of hosts kept.
        core_mbit: rate of each rack's link to the others, each way, in Mbit/s; None: no limit.
        mtu: largest packet in bytes, 1280 to 9000.
    """

    hosts: tuple[Host, ...]
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    core_mbit: float | None = None
    mtu: int = 9000

    def __post_init__(self) -> None:
        names = [host.name for host in self.hosts]
        if not 1 <= len(names) <= MAX_HOSTS:
            raise ValueError(f"{len(names)} hosts: a network has 1 to {MAX_HOSTS}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"hosts named twice: {', '.join(twice)}")
        for name in ("delay_ms", "jitter_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 10_000):
                raise ValueError(f"{name} {value}: give 0 to 10000 ms")
        if self.jitter_ms > 0 and self.delay_ms == 0:
            raise ValueError("jitter_ms needs a delay_ms to vary")
        if self.core_mbit is not None:
            check_rate("core_mbit", self.core_mbit)
        if not 1280 <= self.mtu <= 9000:
            raise ValueError(f"mtu {self.mtu}: give 1280 to 9000 bytes")

    @property
    def racks(self) -> tuple[str, ...]:
        """The racks' names, in the order in which hosts name them first."""
        return tuple(dict.fromkeys(host.rack for host in self.hosts))

    def index(self, name: str) -> int:
        """Place of a host among `hosts`, from 0.

        Raises:
            ValueError: no host has that name.
        """
        for index, host in enumerate(self.hosts):
            if host.name == name:
                return index
        known = ", ".join(host.name for host in self.hosts)
        raise ValueError(f"no host {name!r}; there are {known}")

    def address(self, name: str) -> str:
        """IPv4 address of a host inside the bed."""
        return f"{ADDRESS_PREFIX}{self.index(name) + 1}"


def check_rate(what: str, mbit: float) -> None:
    """Raises `ValueError` unless `mbit` is a rate in Mbit/s that a link can be shaped to."""
    if not (math.isfinite(mbit) and 0.1 <= mbit <= 100_000):
        raise ValueError(f"{what} is {mbit}: give 0.1 to 100000 Mbit/s")
