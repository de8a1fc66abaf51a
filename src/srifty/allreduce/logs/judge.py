"""Which rows of a table to believe: one collective, one unit, one world size, sound arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from srifty.allreduce.logs.layout import UNITS_S
from srifty.allreduce.logs.numbering import Numbering
from srifty.allreduce.logs.numbers import parse_number
from srifty.allreduce.logs.parsed import DroppedRow, LogRow
from srifty.allreduce.logs.physics import (
    GIGA,
    LEAST_S,
    MOST_GBPS,
    RankRange,
    fits_unit,
    fits_world,
    ranks,
    telling,
)
from srifty.allreduce.logs.reading import Reading
from srifty.allreduce.logs.sections import Section
from srifty.allreduce.logs.world import World, find_world, vms_of
from srifty.core.allreduce import Collective

# What gradients travel in: of a table with many types per size, these are kept.
_GRADIENT_TYPES = ("float", "float32", "fp32", "half", "float16", "fp16", "bfloat16", "bf16")
# The largest error that nccl-tests let pass when it still printed one (its deltas by type); where
# it counts wrong elements instead, any count is larger.
_TOLERATED = {
    "half": 1e-2,
    "float16": 1e-2,
    "fp16": 1e-2,
    "bfloat16": 1e-1,
    "bf16": 1e-1,
    "float": 1e-4,
    "float32": 1e-4,
    "fp32": 1e-4,
    "double": 1e-11,
    "float64": 1e-11,
    "fp64": 1e-11,
}
_FAILED = "its data check failed"
_PROGRAMS = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says about a log.

    Attributes:
        world_size: number of ranks; None where not given.
        vms: number of VMs; None where not given.
        other_reductions: whether rows of other reductions than the sum are wanted.
    """

    world_size: int | None = None
    vms: int | None = None
    other_reductions: bool = False


@dataclass(slots=True)
class Judged:
    """A table's rows after judgement.

    Attributes:
        rows: rows to use.
        dropped: rows not to use.
        world: who took part.
        vms: number of VMs; None where unknown.
        warnings: what to know about the table.
    """

    world: World
    vms: int | None = None
    rows: list[LogRow] = field(default_factory=list[LogRow])
    dropped: list[DroppedRow] = field(default_factory=list[DroppedRow])
    warnings: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Case:
    """A row on trial.

    Attributes:
        reading: the row.
        collective: what its figures say it is; None where they say that it is none of ours.
        ranges: the world sizes that each half allows; None where there is none.
        reasons: what speaks against it.
    """

    reading: Reading
    collective: Collective | None
    ranges: list[RankRange | None]
    reasons: list[str] = field(default_factory=list[str])


def judge(
    section: Section, readings: Sequence[Reading], asked: Asked, numbering: Numbering
) -> Judged:
    """Returns which rows of a table to use, and why not the others.

    Args:
        section: the table's surroundings.
        readings: its rows as read.
        asked: what the user says.
        numbering: the numbers that its tables get.
    """
    cases = [_case(reading, section) for reading in readings]
    unit_s = _unit(section, readings)
    for case in cases:
        _check_kind(case, section)
        _check_speed(case, section, unit_s)
        _check_result(case)
    if section.out_of_bounds and not any(_FAILED in r for case in cases for r in case.reasons):
        for case in cases:
            case.reasons.append(
                f"{section.out_of_bounds} values failed the data check, and no row shows which"
            )
    sound = [r for case in cases if not case.reasons for r in case.ranges if r is not None]
    every = [r for case in cases for r in case.ranges if r is not None]
    parts = {
        case.reading.per_rank
        for case in cases
        if case.collective not in (None, Collective.ALL_REDUCE) and not case.reasons
    }
    short = any(
        half.time.value * unit_s < LEAST_S
        for case in cases
        for half in case.reading.halves
        if case.reading.size_bytes
    )
    world = find_world(section, sound, every, parts, asked.world_size, short=short)
    judged = Judged(world)
    if world.size is not None:
        judged.vms, problem = _vms(section, world.size, asked.vms, judged.warnings)
        for case in cases:
            _check_world(case, world.size, unit_s)
            if problem:
                case.reasons.append(problem)
    _check_choice(cases, asked)
    numbering.begin()
    for case in cases:
        if world.size is None:
            judged.dropped.append(DroppedRow(case.reading.line, _unknown(case, world)))
        elif case.reasons:
            judged.dropped.append(DroppedRow(case.reading.line, "; ".join(case.reasons)))
        else:
            accepted = _accepted(case, unit_s, world.size, judged.vms, numbering)
            judged.rows += accepted
            if not accepted:
                judged.dropped.append(DroppedRow(case.reading.line, "repeats an earlier line"))
    return judged


def _case(reading: Reading, section: Section) -> _Case:
    collective = _collective(reading, section)
    ranges: list[RankRange | None] = []
    if collective is not None and reading.size_bytes:
        rings = 2 if collective is Collective.ALL_REDUCE else 1
        ranges = [ranks(half, rings) for half in reading.halves]
    return _Case(reading, collective, ranges)


def _collective(reading: Reading, section: Section) -> Collective | None:
    """Returns what the columns of a row say that it is."""
    reduces = reading.redop not in ("", "none")
    if reading.per_rank == 1:
        return Collective.ALL_REDUCE if reduces else None
    if reading.per_rank < 1:
        return None
    if reduces:
        return Collective.REDUCE_SCATTER
    return Collective.ALL_GATHER if section.program == "all_gather" else None


def _check_kind(case: _Case, section: Section) -> None:
    """Notes what speaks against a row being an allreduce, all-gather or reduce-scatter."""
    reading, reasons = case.reading, case.reasons
    program = section.program
    said = f"{program} (line {section.program_line})"
    if reading.size_bytes == 0:
        reasons.append("size 0: nothing was sent")
        return
    root = parse_number(reading.root) if reading.root else None
    if program and section.program_certain and program not in _PROGRAMS:
        reasons.append(f"not an allreduce: the log says {said}")
    elif root is not None and root.value != -1:
        reasons.append("not an allreduce: it has a root, as a broadcast or reduce has")
    elif reading.per_rank == 0:
        reasons.append(
            f"size {reading.size_bytes} contradicts the count of elements of type {reading.dtype}"
        )
    elif case.collective is None and reading.per_rank == 1:
        reasons.append("not an allreduce: it has no reduction")
    elif case.collective is None:
        reasons.append(
            "not an allreduce: it has no reduction, and the log does not say whether it is an "
            "all-gather or an all-to-all"
        )
    elif section.program_certain and program and _PROGRAMS[program] is not case.collective:
        reasons.append(
            f"the log says {said}, but the columns are those of {_article(case.collective)}"
        )


def _article(collective: Collective) -> str:
    name = collective.value.replace("_", "-").replace("all-reduce", "allreduce")
    return f"an {name}" if name[0] == "a" else f"a {name}"


def _unit(section: Section, readings: Iterable[Reading]) -> float:
    """Returns seconds per unit of time: what `size / time = algbw` proves, else what is usual."""
    votes: Counter[float] = Counter()
    usual = 1e-6
    for reading in readings:
        for half in reading.halves:
            if telling(half):
                for unit_s in UNITS_S:
                    if fits_unit(reading.size_bytes, half, unit_s):
                        votes[unit_s] += 1
                        break
    if votes:
        return votes.most_common(1)[0][0]
    if section.layout is not None and section.layout.unit_s is not None:
        usual = section.layout.unit_s
    return section.unit_s or usual


def _check_speed(case: _Case, section: Section, unit_s: float) -> None:
    """Notes times and bandwidths that contradict each other or that no hardware has."""
    reading = case.reading
    if reading.size_bytes == 0:
        return
    if section.cpu_time:
        case.reasons.append("its times are those of the processor (-C), not of the operation")
        return
    for half in reading.halves:
        where = "in-place" if half.in_place else "out-of-place"
        time_s = half.time.value * unit_s
        if half.time.value <= 0:
            case.reasons.append(f"its {where} time is not above 0")
        elif not fits_unit(reading.size_bytes, half, unit_s):
            kind = case.collective
            if kind not in (None, Collective.ALL_REDUCE) and not case.reasons:
                case.reasons.append(f"{_article(kind)}, not an allreduce")
            case.reasons.append(
                f"{where} size / time is {reading.size_bytes / time_s / GIGA:.6g} GB/s where algbw "
                f"says {half.algbw.value:g}"
            )
        elif time_s < LEAST_S:
            case.reasons.append(f"its {where} time of {time_s * 1e6:.3g} us is below 1 us")
        elif half.algbw.value > MOST_GBPS:
            case.reasons.append(f"its {where} {half.algbw.value:g} GB/s is more than any link has")


def _check_result(case: _Case) -> None:
    """Notes that the test itself found the results wrong."""
    if case.reading.size_bytes == 0:
        return
    tolerated = _TOLERATED.get(case.reading.dtype, 0.0)
    checks = [half.check for half in case.reading.halves if half.check.upper() not in ("", "N/A")]
    for check in checks:
        number = parse_number(check)
        if number is None or not 0 <= number.value <= tolerated:
            case.reasons.append(f"{_FAILED} ({check})")
            return


def _check_world(case: _Case, size: int, unit_s: float) -> None:
    """Notes figures that no world of `size` ranks gives."""
    reading = case.reading
    if case.reasons or case.collective is None:
        return
    factor = case.collective.bus_factor(size)
    if case.collective is not Collective.ALL_REDUCE and reading.per_rank != size:
        case.reasons.append(f"size over count is {reading.per_rank}, not the {size} ranks")
    for half in reading.halves:
        if not fits_world(reading.size_bytes, half, unit_s, factor):
            case.reasons.append(
                f"busbw {half.busbw.value:g} over algbw {half.algbw.value:g} is not that of "
                f"{size} ranks"
            )
            return


def _check_choice(cases: Sequence[_Case], asked: Asked) -> None:
    """Notes rows that are sound but not wanted: other reductions, types no gradient has."""
    kept: dict[int, set[str]] = {}
    for case in cases:
        if not case.reasons:
            kept.setdefault(case.reading.size_bytes, set()).add(case.reading.dtype)
    for case in cases:
        if case.reasons:
            continue
        reading = case.reading
        if reading.redop not in ("", "none", "sum") and not asked.other_reductions:
            case.reasons.append(f"{reading.redop}: other reductions than sum are left out")
        types = kept[reading.size_bytes]
        if (
            len(types) > 1
            and reading.dtype not in _GRADIENT_TYPES
            and types.intersection(_GRADIENT_TYPES)
        ):
            case.reasons.append(
                f"type {reading.dtype}: of a size with several types, those of gradients are kept"
            )


def _vms(
    section: Section, size: int, given: int | None, warnings: list[str]
) -> tuple[int | None, str]:
    """Returns the number of VMs, and why the rows cannot be used."""
    shown = vms_of(section, size)
    if given is None or given == shown:
        return shown, ""
    if given > size:
        return None, f"{given} VMs cannot hold only {size} ranks"
    if shown is not None and given > shown:
        return None, f"the log names {shown} hosts, fewer than the {given} VMs given"
    if shown is not None:
        # Containers have host names of their own; several may share a VM.
        warnings.append(f"the log names {shown} hosts; taken as {given} VMs, as given")
    return given, ""


def _unknown(case: _Case, world: World) -> str:
    """Returns why a row of a table without a known world size is refused."""
    if world.problem:
        return "; ".join([*case.reasons, world.problem])
    if case.reasons:
        return "; ".join(case.reasons)
    span = f" ({world.possible.low} to {world.possible.high} fit)" if world.possible.tells else ""
    return f"the log does not say how many ranks took part{span}; give --world-size N"


def _accepted(
    case: _Case, unit_s: float, size: int, vms: int | None, numbering: Numbering
) -> list[LogRow]:
    """Returns the measurements of a believed row; none where it is an earlier row once more."""
    reading = case.reading
    collective = case.collective or Collective.ALL_REDUCE
    table = numbering.table((reading.size_bytes, reading.dtype, reading.redop), reading.halves)
    if table is None:
        return []
    return [
        LogRow(
            line=reading.line,
            last_line=reading.last_line,
            table=table,
            run=numbering.run(collective, size, table),
            collective=collective,
            size_bytes=reading.size_bytes,
            time_s=half.time.value * unit_s,
            in_place=half.in_place,
            dtype=reading.dtype,
            redop="" if reading.redop == "none" else reading.redop,
            world_size=size,
            vms=vms,
        )
        for half in reading.halves
    ]
