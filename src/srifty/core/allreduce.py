"""Measured collectives: what was sent, where, with what, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from srifty.core._checks import MOST_BYTES, require, require_count, require_positive


class Collective(StrEnum):
    """The collectives that logs hold; only allreduce samples forecast an allreduce."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"

    def bus_factor(self, world_size: int) -> float:
        """Returns bus bytes per message byte: `2(n−1)/n` for an allreduce, else `(n−1)/n`.

        The message is what all ranks together hold of it, as nccl-tests counts (its PERFORMANCE
        page): the whole buffer, not the part of one rank.
        """
        ring = (world_size - 1) / world_size
        return 2 * ring if self is Collective.ALL_REDUCE else ring


class CurveKey(NamedTuple):
    """What the samples of one curve have in common; curves are never averaged with each other."""

    collective: Collective
    instance_type: str
    config: str
    transport: str
    library_version: str


@dataclass(frozen=True, slots=True)
class AllreduceSample:
    """One measured collective; bandwidths are derived, never stored.

    Attributes:
        instance_type: the VM shape it ran on.
        vms: number of VMs.
        world_size: number of ranks (GPUs).
        size_bytes: bytes of the message (for an allreduce: what each rank contributed).
        time_s: seconds that one operation took.
        cloud: the provider; empty where unknown, like every text below.
        transport: `tcp`, `efa`, `nvlink`, ...
        library_version: NCCL's (or gloo's) version.
        source: where the figure comes from.
        collective: which collective it was.
        gpu: the GPU model as the log or file names it.
        region: the cloud region.
        zone: the zone in it.
        config: settings that make it an environment of its own, `NCCL_ALGO=Ring`, ...
        run: tells repeats apart. With the source, its part before a slash names the allocation:
            `a1b2/3` is the third repeat on a1b2; without a slash every run is taken for one.
        dtype: element type.
        in_place: whether the buffers were the same on both sides.
        concurrent: how many transfers ran at the same time, this one included.
        placement_group: whether the VMs shared one; None where unknown.
        measured_at: when, with a time zone; None where unknown.
    """

    instance_type: str
    vms: int
    world_size: int
    size_bytes: int
    time_s: float
    cloud: str = ""
    transport: str = ""
    library_version: str = ""
    source: str = ""
    collective: Collective = Collective.ALL_REDUCE
    gpu: str = ""
    region: str = ""
    zone: str = ""
    config: str = ""
    run: str = ""
    dtype: str = ""
    in_place: bool = False
    concurrent: int = 1
    placement_group: bool | None = None
    measured_at: datetime | None = None

    def __post_init__(self) -> None:
        require_count("vms", self.vms)
        require_count("world_size", self.world_size, least=2)
        require_count("size_bytes", self.size_bytes, most=MOST_BYTES)
        require_positive("time_s", self.time_s)
        require_count("concurrent", self.concurrent, most=1024)
        require(
            self.vms <= self.world_size,
            f"{self.vms} VMs cannot hold only {self.world_size} ranks",
        )
        require(
            self.measured_at is None or self.measured_at.tzinfo is not None,
            "measured_at must carry a time zone",
        )

    @property
    def algorithm_bytes_per_s(self) -> float:
        """Algorithm bandwidth `s / t` in bytes per second."""
        return self.size_bytes / self.time_s

    @property
    def bus_bytes_per_s(self) -> float:
        """Bus bandwidth in bytes per second; `2 s (n-1) / (n t)` for an allreduce."""
        return self.algorithm_bytes_per_s * self.collective.bus_factor(self.world_size)

    @property
    def allocation(self) -> tuple[str, str]:
        """The set of VMs as the cloud handed it out: the source and what `run` says of it."""
        return self.source, self.run.partition("/")[0]

    @property
    def curve(self) -> CurveKey:
        """The curve it belongs to."""
        return CurveKey(
            self.collective,
            self.instance_type,
            self.config,
            self.transport,
            self.library_version,
        )
