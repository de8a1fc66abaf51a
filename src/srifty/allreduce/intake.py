"""From the bytes of a file to samples: which kind of file it is, and what the user adds to it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from srifty.allreduce.dropped import DroppedRow
from srifty.allreduce.logs import ParsedLog, read_log
from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import CSV_KIND, in_utc, parse_samples
from srifty.allreduce.store import UNNAMED
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.database import SQLITE_MAGIC
from srifty.errors import InputError
from srifty.inputs import decode_text

KIND = "nccl-tests log or CSV file"
_MOST_LINES_NAMED = 6
# Of a VM that nothing is known of; only samples without an instance type rest on it.
_USUAL_GPUS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the user says about a file; empty or None where the file is to say it.

    Attributes:
        instance_type: the VM shape.
        cloud: the provider.
        region: the region.
        zone: the zone in it.
        world_size: number of ranks.
        vms: number of VMs.
        transport: `efa`, `tcp-socket`, ...
        config: settings that make it an environment of its own.
        placement_group: whether the VMs shared one.
        measured_at: when, with a time zone.
        collective: take nothing but this collective.
        other_reductions: take products, maxima, ... besides sums.
        gpus_per_vm: GPUs that a VM of the instance type has; None where no catalog knows.
        gpu: their model, as the catalog names it; empty where no catalog knows.
    """

    instance_type: str = ""
    cloud: str = ""
    region: str = ""
    zone: str = ""
    world_size: int | None = None
    vms: int | None = None
    transport: str = ""
    config: str = ""
    placement_group: bool | None = None
    measured_at: datetime | None = None
    collective: Collective | None = None
    other_reductions: bool = False
    gpus_per_vm: int | None = None
    gpu: str = ""

    def cells(self) -> dict[str, str]:
        """Returns what was said about each row, by the column of a CSV file."""
        texts = {
            "instance_type": self.instance_type,
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "world_size": "" if self.world_size is None else str(self.world_size),
            "nodes": "" if self.vms is None else str(self.vms),
            "transport": self.transport,
            "config": self.config,
            "placement_group": "" if self.placement_group is None else f"{self.placement_group:d}",
            "measured_at": "" if self.measured_at is None else in_utc(self.measured_at).isoformat(),
        }
        return {name: text for name, text in texts.items() if text}

    def all(self) -> dict[str, str]:
        """Returns all that was said, which is a part of what makes two imports the same."""
        more = {"as": str(self.collective)} if self.collective else {}
        if self.other_reductions:
            more["other_reductions"] = "1"
        return self.cells() | more


@dataclass(frozen=True, slots=True)
class Intake:
    """What was taken from a file.

    Attributes:
        file: the file, for the store.
        samples: what it gave.
        dropped: the rows that were not taken.
        world_size: ranks of all samples; None where they differ or it is not known.
        world_size_from: where that is from; empty where there is nothing to say.
        world_size_range: least and largest that the log allows, where it does not settle it.
        vms: VMs of all samples; None where they differ or are not known.
        gpus_per_vm: GPUs of each VM; None where they differ or are not known.
        gpu: GPU model; empty where samples differ or it is not known, like the texts below.
        library_version: the library's version.
        transport: how the bytes went.
        collectives: the collectives of the samples.
        complete: whether the log was written to its end; None for a CSV file.
        warnings: what to mind; full sentences.
    """

    file: SourceFile
    samples: tuple[AllreduceSample, ...]
    dropped: tuple[DroppedRow, ...]
    world_size: int | None
    world_size_from: str
    world_size_range: tuple[int, int] | None
    vms: int | None
    gpus_per_vm: int | None
    gpu: str
    library_version: str
    transport: str
    collectives: tuple[Collective, ...]
    complete: bool | None
    warnings: tuple[str, ...]


def take_in(
    data: bytes,
    name: str,
    answers: Answers,
    progress: Callable[[int, int], None] | None = None,
) -> Intake:
    """Returns the samples of a log or of a CSV file, told apart by their content.

    Args:
        data: what the file holds.
        name: what it is called.
        answers: what the user says about it.
        progress: is told now and then how many lines of how many are read.

    Raises:
        InputError: it is neither, or contradicts the answers as a whole.
    """
    if not data.strip():
        raise InputError(f"is empty; a {KIND} was expected", name)
    if data.startswith(SQLITE_MAGIC):
        raise InputError("is a database; a store is named with --db, and read by export", name)
    digest = hashlib.sha256(data).hexdigest()
    file = SourceFile(name, digest, answers.all())
    if _is_csv(data):
        return _from_csv(data, file, answers, progress)
    return _from_log(data, file, answers)


def grouped(dropped: Sequence[DroppedRow]) -> list[str]:
    """Returns the reasons, the most frequent first, each with how often and on which lines.

    A row can have several, joined by semicolons; those that the same rows have stay together.
    """
    lines: dict[str, list[int]] = {}
    for row in dropped:
        for reason in dict.fromkeys(row.reason.split("; ")):
            lines.setdefault(reason, []).append(row.line)
    reasons: dict[tuple[int, ...], list[str]] = {}
    for reason, found in lines.items():
        reasons.setdefault(tuple(found), []).append(reason)
    words: list[str] = []
    for found, together in sorted(reasons.items(), key=lambda item: -len(item[0])):
        named = ", ".join(map(str, found[:_MOST_LINES_NAMED]))
        more = ", ..." if len(found) > _MOST_LINES_NAMED else ""
        count = f"{len(found):,} x " if len(found) > 1 else ""
        plural = "s" if len(found) > 1 else ""
        words.append(f"{count}{'; '.join(together)} (line{plural} {named}{more})")
    return words


def _is_csv(data: bytes) -> bool:
    first = data.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return b"size_bytes" in first and (b"instance_type" in first or b"time_us" in first)


def _from_csv(
    data: bytes,
    file: SourceFile,
    answers: Answers,
    progress: Callable[[int, int], None] | None,
) -> Intake:
    text = decode_text(data, CSV_KIND, file.name)
    parsed = parse_samples(
        text, file.name, answers.cells(), only=answers.collective, progress=progress
    )
    samples = _with_source(parsed.samples, "CSV file")
    world_size = _only([s.world_size for s in samples])
    vms = _only([s.vms for s in samples])
    return Intake(
        file=file,
        samples=samples,
        dropped=parsed.dropped,
        world_size=world_size,
        world_size_from="--world-size" if answers.world_size else "column world_size",
        world_size_range=None,
        vms=vms,
        gpus_per_vm=_only([s.world_size // s.vms for s in samples]),
        gpu=_only([s.gpu for s in samples]) or "",
        library_version=_only([s.library_version for s in samples]) or "",
        transport=_only([s.transport for s in samples]) or "",
        collectives=_distinct(samples),
        complete=None,
        warnings=(),
    )


def _from_log(data: bytes, file: SourceFile, answers: Answers) -> Intake:
    log = read_log(
        data,
        name=file.name,
        world_size=answers.world_size,
        vms=answers.vms,
        other_reductions=answers.other_reductions,
    )
    kind = answers.instance_type or _label(log)
    warnings = list(log.warnings)
    log, assumed = _with_vms(log, answers)
    if assumed:
        warnings.append(assumed)
    model = answers.gpu.split("-", 1)[0]
    if log.gpu and model.casefold() not in log.gpu.casefold():
        warnings.append(
            f"It shows {log.gpu}, but {answers.instance_type} has {answers.gpu}: is the instance "
            "type right?"
        )
    samples = log.samples(
        instance_type=kind,
        cloud=answers.cloud,
        region=answers.region,
        zone=answers.zone,
        transport=answers.transport or None,
        config=answers.config or None,
        measured_at=answers.measured_at,
        placement_group=answers.placement_group,
    )
    samples = _with_source(tuple(replace(s, source="") for s in samples), "nccl-tests log")
    dropped = [DroppedRow(row.line, row.reason) for row in log.dropped]
    if answers.collective is not None:
        dropped += [
            DroppedRow(row.line, f"is {row.collective}, but {answers.collective} was asked for")
            for row in log.rows
            if row.collective != answers.collective
        ]
        samples = tuple(s for s in samples if s.collective == answers.collective)
    if not answers.instance_type and samples:
        warnings.append(
            f"It does not say on which instance type it ran: it is kept as {kind}, which no plan "
            "uses. Import it again with --instance-type."
        )
    return Intake(
        file=file,
        samples=samples,
        dropped=tuple(sorted(dict.fromkeys(dropped), key=lambda row: row.line)),
        world_size=log.world_size,
        world_size_from=log.world_size_from,
        world_size_range=log.world_size_range,
        vms=log.vms,
        gpus_per_vm=log.gpus_per_vm,
        gpu=log.gpu,
        library_version=log.library_version,
        transport=answers.transport or log.transport,
        collectives=_distinct(samples),
        complete=log.complete,
        warnings=tuple(warnings),
    )


def _label(log: ParsedLog) -> str:
    """Returns what a log without an instance type is kept under: `unnamed-8xA100-SXM4-40GB`."""
    gpu = "-".join(log.gpu.removeprefix("NVIDIA").split()) or "GPU"
    return f"{UNNAMED}{log.gpus_per_vm}x{gpu}" if log.gpus_per_vm else f"{UNNAMED}{gpu}"


def _with_vms(log: ParsedLog, answers: Answers) -> tuple[ParsedLog, str]:
    """Returns a log whose rows know their VMs, and what was assumed for it; empty where nothing.

    Raises:
        InputError: the VMs are not known and cannot be assumed, or hold more GPUs than their type
            has.
    """
    each = answers.gpus_per_vm
    worlds = {(row.world_size, row.vms) for row in log.rows}
    if each is not None:
        for world_size, vms in worlds:
            if vms is not None and world_size > vms * each:
                raise InputError(
                    f"shows {world_size} GPUs on {vms} VM(s), but {answers.instance_type} has "
                    f"{each}; give another --instance-type or --vms",
                    log.name,
                )
    unknown = sorted({world_size for world_size, vms in worlds if vms is None})
    if not unknown:
        return log, ""
    if each is None and answers.instance_type:
        raise InputError(
            f"does not show on how many VMs it ran, and no catalog knows {answers.instance_type}; "
            "give --vms N",
            log.name,
        )
    each = each or _USUAL_GPUS
    for world_size in unknown:
        if world_size > each and world_size % each and answers.instance_type:
            raise InputError(
                f"does not show on how many VMs it ran: {world_size} GPUs are no whole number of "
                f"{answers.instance_type} ({each} GPUs each); give --vms N",
                log.name,
            )
    rows = tuple(
        row if row.vms is not None else replace(row, vms=-(-row.world_size // each))
        for row in log.rows
    )
    vms = -(-unknown[0] // each) if len(worlds) == 1 and answers.instance_type else log.vms
    if not answers.instance_type:
        return replace(log, rows=rows, vms=vms), "It does not show on how many VMs it ran."
    counts = " and ".join(
        str(count) for count in sorted({-(-world_size // each) for world_size in unknown})
    )
    return replace(log, rows=rows, vms=vms), (
        f"It does not show on how many VMs it ran: {counts} assumed, since {answers.instance_type} "
        f"has {each} GPU{'s' if each > 1 else ''}; give --vms if not."
    )


def _with_source(samples: Sequence[AllreduceSample], kind: str) -> tuple[AllreduceSample, ...]:
    """Returns samples with a source where they have none: a digest of what was measured.

    Not the file's name or bytes: a copy that an editor or a terminal changed is the same
    measurement.
    """
    digest = hashlib.sha256()
    for s in samples:
        measured = (
            s.collective.value, s.world_size, s.size_bytes, s.time_s, s.in_place, s.dtype, s.run,
            s.library_version,
        )  # fmt: skip
        digest.update(repr(measured).encode())
    source = f"{kind} {digest.hexdigest()[:16]}"
    return tuple(s if s.source else replace(s, source=source) for s in samples)


def _distinct(samples: Sequence[AllreduceSample]) -> tuple[Collective, ...]:
    return tuple(sorted({sample.collective for sample in samples}))


_T = TypeVar("_T")


def _only(values: Sequence[_T]) -> _T | None:
    return values[0] if len(set(values)) == 1 else None
