"""Measured allreduce samples."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core._checks import MOST_BYTES, require, require_count, require_positive


@dataclass(frozen=True, slots=True)
class AllreduceSample:
    """One measured allreduce; bandwidths are derived, never stored.

    Attributes:
        instance_type: the VM shape it ran on.
        vms: number of VMs.
        world_size: number of ranks (GPUs).
        size_bytes: bytes that each rank contributed.
        time_s: seconds that one allreduce took.
        cloud: the provider.
        transport: `tcp`, `efa`, `nvlink`, ...; empty where unknown.
        library_version: NCCL's version; empty where unknown.
        source: where the figure comes from.
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

    def __post_init__(self) -> None:
        require_count("vms", self.vms)
        require_count("world_size", self.world_size, least=2)
        require_count("size_bytes", self.size_bytes, most=MOST_BYTES)
        require_positive("time_s", self.time_s)
        require(
            self.vms <= self.world_size,
            f"{self.vms} VMs cannot hold only {self.world_size} ranks",
        )

    @property
    def algorithm_bytes_per_s(self) -> float:
        """Algorithm bandwidth `s / t` in bytes per second."""
        return self.size_bytes / self.time_s

    @property
    def bus_bytes_per_s(self) -> float:
        """Bus bandwidth `2 s (n-1) / (n t)` in bytes per second."""
        n = self.world_size
        return 2 * self.size_bytes * (n - 1) / (n * self.time_s)
