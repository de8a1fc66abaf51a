"""What a probe has found so far; the measuring thread adds, the waiting one reads. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from srifty.core.allreduce import AllreduceSample
from srifty.probing.burst import LongRun
from srifty.probing.grid import Cell, ElementType


@dataclass(frozen=True, slots=True)
class Place:
    """Where a probe runs, as every sample of it says; empty texts where unknown.

    Attributes:
        instance_type: the VM shape.
        cloud: the provider.
        region: the cloud region.
        zone: the zone in it.
        placement_group: whether the VMs share one; None where unknown.
        transport: what the messages travel over: `tcp-socket`, `efa`, `nvlink`, ...
        config: settings that make it an environment of its own.
        vms: number of VMs.
        world_size: number of ranks.
        gpu: the GPU model.
        library_version: NCCL's or gloo's version.
        source: what measured.
        allocation: the VMs as the cloud handed them out, random digits.
        element: element type of the messages.
    """

    instance_type: str
    cloud: str
    region: str
    zone: str
    placement_group: bool | None
    transport: str
    config: str
    vms: int
    world_size: int
    gpu: str
    library_version: str
    source: str
    allocation: str
    element: ElementType

    def sample(self, cell: Cell, time_s: float, run: int, at: datetime) -> AllreduceSample:
        """Returns one sample.

        Args:
            cell: what was measured.
            time_s: seconds per operation, of the slowest rank; all transfers of the cell.
            run: which repeat it is, from 1.
            at: when it ended.
        """
        return AllreduceSample(
            instance_type=self.instance_type,
            vms=self.vms,
            world_size=self.world_size,
            size_bytes=cell.size_bytes,
            time_s=time_s,
            cloud=self.cloud,
            transport=self.transport,
            library_version=self.library_version,
            source=self.source,
            gpu=self.gpu,
            region=self.region,
            zone=self.zone,
            config=self.config,
            run=f"{self.allocation}/{run}",
            dtype=self.element.log_name,
            in_place=True,
            concurrent=cell.concurrent,
            placement_group=self.placement_group,
            measured_at=at,
        )


@dataclass
class Findings:
    """What was measured.

    Attributes:
        samples: those to keep, in the order they were taken.
        burst: those of large messages that a long run showed to be taken in a burst.
        long: the long run, if one was asked for and has points.
        notes: what a reader should know, in sentences.
    """

    samples: list[AllreduceSample] = field(default_factory=list[AllreduceSample])
    burst: list[AllreduceSample] = field(default_factory=list[AllreduceSample])
    long: LongRun | None = None
    notes: list[str] = field(default_factory=list[str])
