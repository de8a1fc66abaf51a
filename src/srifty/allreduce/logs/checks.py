"""What speaks against a row: each check notes its reasons, none decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from srifty.allreduce.logs.physics import (
    GIGA,
    LEAST_S,
    MOST_GBPS,
    MOST_SIZE_BYTES,
    RankRange,
    fits_unit,
    fits_world,
    ranks,
)
from srifty.allreduce.logs.printed import parse_number
from srifty.allreduce.logs.reading import Reading
from srifty.allreduce.logs.sections import Section
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


@dataclass(slots=True)
class Case:
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


def open_case(reading: Reading, section: Section) -> Case:
    """Returns a row as the checks take it."""
    collective = _collective(reading, section)
    ranges: list[RankRange | None] = []
    if collective is not None and reading.size_bytes:
        rings = 2 if collective is Collective.ALL_REDUCE else 1
        ranges = [ranks(half, rings) for half in reading.halves]
    return Case(reading, collective, ranges)


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


def check_kind(case: Case, section: Section) -> None:
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
    elif reading.size_bytes > MOST_SIZE_BYTES:
        reasons.append(f"size {reading.size_bytes} is more than any memory holds")
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


def _article(collective: Collective | None) -> str:
    name = (
        (collective or Collective.ALL_REDUCE)
        .value.replace("_", "-")
        .replace("all-reduce", "allreduce")
    )
    return f"an {name}" if name[0] == "a" else f"a {name}"


def check_speed(case: Case, section: Section, unit_s: float) -> None:
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


def check_results(cases: Sequence[Case], section: Section) -> None:
    """Notes that the test itself found results wrong."""
    for case in cases:
        _check_result(case)
    if section.out_of_bounds and not any(_FAILED in r for case in cases for r in case.reasons):
        for case in cases:
            case.reasons.append(
                f"{section.out_of_bounds} values failed the data check, and no row shows which"
            )


def _check_result(case: Case) -> None:
    if case.reading.size_bytes == 0:
        return
    tolerated = _TOLERATED.get(case.reading.dtype, 0.0)
    checks = [half.check for half in case.reading.halves if half.check.upper() not in ("", "N/A")]
    for check in checks:
        number = parse_number(check)
        if number is None or not 0 <= number.value <= tolerated:
            case.reasons.append(f"{_FAILED} ({check})")
            return


def check_company(cases: Sequence[Case]) -> None:
    """Notes rows that are of another collective than most of their table: a damaged column."""
    kinds = Counter(case.collective for case in cases if not case.reasons)
    if len(kinds) > 1:
        usual = kinds.most_common(1)[0][0]
        for case in cases:
            if not case.reasons and case.collective is not usual:
                case.reasons.append(
                    f"its columns are those of {_article(case.collective)}, unlike other rows'"
                )


def check_world(case: Case, size: int, unit_s: float) -> None:
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


def check_choice(cases: Sequence[Case], *, other_reductions: bool) -> None:
    """Notes rows that are sound but not wanted: other reductions, types no gradient has."""
    kept: dict[int, set[str]] = {}
    for case in cases:
        if not case.reasons:
            kept.setdefault(case.reading.size_bytes, set()).add(case.reading.dtype)
    for case in cases:
        if case.reasons:
            continue
        reading = case.reading
        if reading.redop not in ("", "none", "sum") and not other_reductions:
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
