"""Which rows of a table to believe: one collective, one unit, one world size, sound arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from srifty.allreduce.dropped import DroppedRow
from srifty.allreduce.logs.checks import (
    Case,
    check_choice,
    check_company,
    check_kind,
    check_results,
    check_speed,
    check_world,
    open_case,
)
from srifty.allreduce.logs.layout import UNITS_S
from srifty.allreduce.logs.numbering import Numbering
from srifty.allreduce.logs.parsed import LogRow
from srifty.allreduce.logs.physics import LEAST_S, fits_unit
from srifty.allreduce.logs.reading import Reading
from srifty.allreduce.logs.sections import Section
from srifty.allreduce.logs.world import FROM_BANDWIDTHS, World, find_world, vms_of
from srifty.core.allreduce import Collective


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
    cases = [open_case(reading, section) for reading in readings]
    unit_s = _unit(section, readings)
    for case in cases:
        check_kind(case, section)
        check_speed(case, section, unit_s)
    check_results(cases, section)
    check_company(cases)
    sound = [r for case in cases if not case.reasons for r in case.ranges if r is not None]
    every = [r for case in cases for r in case.ranges if r is not None]
    parts = _parts(cases)
    short = any(
        half.time.value * unit_s < LEAST_S
        for case in cases
        for half in case.reading.halves
        if case.reading.size_bytes
    )
    world = find_world(section, sound, every, parts, asked.world_size, short=short)
    judged = Judged(world)
    if world.size == 2 and world.source == FROM_BANDWIDTHS and not section.program:
        judged.warnings.append(
            "nothing but busbw = algbw tells the world size, and a sendrecv would print that too: "
            "taken for an allreduce of 2 ranks"
        )
    if world.size is not None:
        judged.vms, problem = _vms(section, world.size, asked.vms, judged.warnings)
        for case in cases:
            check_world(case, world.size, unit_s)
            if problem:
                case.reasons.append(problem)
    check_choice(cases, other_reductions=asked.other_reductions)
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


def _unit(section: Section, readings: Iterable[Reading]) -> float:
    """Returns seconds per unit of time: what `size / time = algbw` proves, else what is usual."""
    votes: Counter[float] = Counter()
    usual = 1e-6
    for reading in readings:
        for half in reading.halves:
            if half.algbw.low > 0:
                for unit_s in UNITS_S:
                    if fits_unit(reading.size_bytes, half, unit_s):
                        votes[unit_s] += 1
                        break
    if votes:
        return votes.most_common(1)[0][0]
    if section.layout is not None and section.layout.unit_s is not None:
        usual = section.layout.unit_s
    return section.unit_s or usual


def _parts(cases: Sequence[Case]) -> set[int]:
    """Returns the world sizes that follow from sizes over counts: one, unless rows disagree."""
    parts = Counter(
        case.reading.per_rank
        for case in cases
        if not case.reasons and case.collective is not Collective.ALL_REDUCE
    )
    if parts:
        usual, count = parts.most_common(1)[0]
        if 3 * count > 2 * parts.total():
            return {usual}
    return set(parts)


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


def _unknown(case: Case, world: World) -> str:
    """Returns why a row of a table without a known world size is refused."""
    if world.problem:
        return "; ".join([*case.reasons, world.problem])
    if case.reasons:
        return "; ".join(case.reasons)
    span = f" ({world.possible.low} to {world.possible.high} fit)" if world.possible.tells else ""
    return f"the log does not say how many ranks took part{span}; give --world-size N"


def _accepted(
    case: Case, unit_s: float, size: int, vms: int | None, numbering: Numbering
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
