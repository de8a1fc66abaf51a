"""What a log turned out to hold: rows to use, lines refused, and what is known about the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from srifty.allreduce.dropped import DroppedRow
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError


@dataclass(frozen=True, slots=True)
class LogRow:
    """One measurement that stood every check: half a line of a table.

    Attributes:
        line: the line that it begins on, from 1.
        last_line: the line that it ends on; another only where a message split the row.
        table: index of its table in the file, from 0; a size that comes again begins a table.
        run: tells the tables of one collective and world size apart: `0`, `1`, ...
        collective: what was measured.
        size_bytes: bytes of the message.
        time_s: seconds per operation.
        in_place: whether the buffers were the same on both sides.
        dtype: the element type.
        redop: the reduction; empty where the collective has none.
        world_size: number of ranks.
        vms: number of VMs; None where neither the log nor the user says.
    """

    line: int
    last_line: int
    table: int
    run: str
    collective: Collective
    size_bytes: int
    time_s: float
    in_place: bool
    dtype: str
    redop: str
    world_size: int
    vms: int | None


@dataclass(frozen=True, slots=True)
class BandwidthAverage:
    """The average bus bandwidth of one table, as printed and as its rows give it.

    Attributes:
        line: the line that it is printed on.
        printed_gbps: as printed, GB/s.
        mean_gbps: mean of the printed bus bandwidths of all rows of the table, refused ones
            included, GB/s.
    """

    line: int
    printed_gbps: float
    mean_gbps: float


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """A log of nccl-tests, read and checked.

    Attributes:
        name: the file's name.
        rows: the measurements to use, in file order.
        dropped: the rows that are not used, by line.
        world_size: number of ranks; None where unknown or where tables differ (see the rows).
        world_size_from: what says so, in a few words.
        world_size_range: least and largest world size that the figures allow, where they do not
            settle it.
        vms: number of VMs; None where unknown or where tables differ.
        gpu: the GPU model that most ranks ran on; empty where unknown.
        library_version: the version of NCCL (or RCCL); empty where unknown.
        transport: what carried the data: `efa`, `tcp-socket`, `ib`, `roce`, `nvlink`, ...; empty
            where the log does not say.
        settings: `NCCL_*` settings that the log shows.
        config: those of the settings that tune a collective, as one text.
        complete: whether a summary closed the last table.
        averages: the printed averages, one per summary.
        warnings: what a reader should know before using the rows.
    """

    name: str
    rows: tuple[LogRow, ...]
    dropped: tuple[DroppedRow, ...]
    world_size: int | None
    world_size_from: str
    world_size_range: tuple[int, int] | None
    vms: int | None
    gpu: str
    library_version: str
    transport: str
    settings: Mapping[str, str]
    config: str
    complete: bool
    averages: tuple[BandwidthAverage, ...]
    warnings: tuple[str, ...]

    @property
    def lines(self) -> int:
        """Number of table lines that the rows come from."""
        return len({(row.line, row.size_bytes) for row in self.rows})

    @property
    def gpus_per_vm(self) -> int | None:
        """GPUs per VM, where all VMs have equally many and the number is known."""
        if self.vms is None or self.world_size is None or self.world_size % self.vms:
            return None
        return self.world_size // self.vms

    def samples(
        self,
        instance_type: str,
        *,
        cloud: str = "",
        region: str = "",
        zone: str = "",
        transport: str | None = None,
        config: str | None = None,
        measured_at: datetime | None = None,
        placement_group: bool | None = None,
        source: str = "",
    ) -> tuple[AllreduceSample, ...]:
        """Returns the rows as samples.

        Args:
            instance_type: the VM shape that the job ran on; a log does not say.
            cloud: the provider; empty where unknown, like the next two.
            region: the cloud region.
            zone: the zone in it.
            transport: what carried the data; None takes what the log says.
            config: what makes the environment its own; None takes the log's tuning settings.
            measured_at: when, with a time zone.
            placement_group: whether the VMs shared one.
            source: where the log comes from; the file's name where empty.

        Raises:
            InputError: the number of VMs is unknown, or larger than the number of ranks.
        """
        if any(row.vms is None for row in self.rows):
            raise InputError(
                "does not show on how many VMs the ranks ran; give the number of VMs", self.name
            )
        return tuple(
            AllreduceSample(
                instance_type=instance_type,
                vms=row.vms or 1,
                world_size=row.world_size,
                size_bytes=row.size_bytes,
                time_s=row.time_s,
                cloud=cloud,
                transport=self.transport if transport is None else transport,
                library_version=self.library_version,
                source=source or self.name,
                collective=row.collective,
                gpu=self.gpu,
                region=region,
                zone=zone,
                config=self.config if config is None else config,
                run=row.run,
                dtype=row.dtype,
                in_place=row.in_place,
                placement_group=placement_group,
                measured_at=measured_at,
            )
            for row in self.rows
        )
