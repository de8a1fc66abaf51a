"""How many ranks took part in a table, and on how many VMs: what the log proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from srifty.allreduce.logs.physics import ANY_RANKS, RankRange, agreed
from srifty.allreduce.logs.sections import Section

FROM_BANDWIDTHS = "busbw/algbw"
MPI_HINT = (
    "each process ran alone, as when nccl-tests is built without MPI: build it again with "
    "`make clean` and `make MPI=1`"
)


@dataclass(frozen=True, slots=True)
class World:
    """Who took part in a table.

    Attributes:
        size: number of ranks; None where it is unknown or contradictory.
        source: what says so, in a few words; empty where unknown.
        possible: world sizes that the figures allow.
        problem: why no row of the table can be used; empty where there is no such reason.
    """

    size: int | None
    source: str
    possible: RankRange
    problem: str = ""


def _refused(problem: str, possible: RankRange = ANY_RANKS) -> World:
    return World(None, "", possible, problem)


def find_world(
    section: Section,
    ranges: Sequence[RankRange],
    every: Sequence[RankRange],
    parts: set[int],
    given: int | None,
    *,
    short: bool,
) -> World:
    """Returns who took part in a table.

    Args:
        section: the table's surroundings.
        ranges: the world sizes that `busbw / algbw` of each sound row allows.
        every: the same of all rows, sound or not.
        parts: world sizes that follow from sizes over counts, for an all-gather or reduce-scatter.
        given: the world size that the user gives.
        short: whether times below one microsecond occur.
    """
    alone = _alone(section, every, short=short)
    if alone:
        return _refused(f"world size 1: {alone}; {MPI_HINT}", RankRange(1, 1))
    if section.repeated_ranks:
        twin = section.repeated_ranks[0]
        first = section.devices[twin.rank]
        return _refused(
            f"Rank {twin.rank} is listed on line {first.line} ({first.host or 'one machine'}) and "
            f"again on line {twin.line} ({twin.host or 'one machine'}): several jobs ran at once; "
            f"{MPI_HINT}"
        )
    if len({rank.group for rank in section.devices.values()}) > 1:
        return _refused("several groups of ranks ran at the same time (NCCL_TESTS_SPLIT)")
    telling = [r for r in ranges if r.tells]
    possible, supporters = agreed(telling) if telling else (ANY_RANKS, 0)
    if telling and 3 * supporters < 2 * len(telling):
        return _refused("busbw / algbw differs from row to row: no one world size fits them")
    return _settled(section, telling, possible, parts, given)


def _settled(
    section: Section,
    telling: Sequence[RankRange],
    possible: RankRange,
    parts: set[int],
    given: int | None,
) -> World:
    claims: list[tuple[int, str]] = []
    listed = _listed(section)
    least = max(section.devices, default=0) + 1
    if listed is not None and (not section.inherited or _agree(listed, telling)):
        claims.append((listed, f"{listed} rank lines"))
    elif section.devices and not section.inherited and least > possible.high:
        return _refused(
            f"Rank {least - 1} is listed, but busbw / algbw says {_span(possible)} ranks", possible
        )
    if section.nranks:
        fitting = [n for n in sorted(section.nranks) if _agree(n, telling)]
        named = fitting if len(section.nranks) > 1 and fitting else sorted(section.nranks)
        if len(named) == 1:
            claims.append((named[0], f"nranks {named[0]} in the log"))
    if len(parts) > 1:
        return _refused("size over count differs from row to row", possible)
    claims += [(n, "size / count") for n in parts]
    if possible.low == possible.high:
        claims.append((possible.low, FROM_BANDWIDTHS))
    if given is not None:
        claims.append((given, "--world-size"))
    if not claims:
        return World(None, "", possible)
    size, source = claims[0]
    for other, other_source in claims[1:]:
        if other != size:
            return _refused(
                f"{source} and {other_source} disagree: {size} ranks or {other}", possible
            )
    if not _agree(size, telling):
        return _refused(
            f"{source}: {size} ranks, but busbw / algbw says {_span(possible)}", possible
        )
    if size < 2:
        return _refused(f"world size {size}: nothing was exchanged ({source})", possible)
    return World(size, source, possible)


def vms_of(section: Section, size: int) -> int | None:
    """Returns the number of VMs that the log shows for a world of `size` ranks, or None."""
    if len(section.devices) == size == max(section.devices, default=-1) + 1:
        return len({rank.host for rank in section.devices.values()})
    return next(iter(section.nnodes)) if len(section.nnodes) == 1 else None


def _listed(section: Section) -> int | None:
    """Returns the number of ranks of a device list that looks whole, or None."""
    count = len(section.devices)
    whole = count == max(section.devices, default=-1) + 1
    # Documents often keep a line or two of a long list.
    return count if whole and count > 1 and not section.elided else None


def _alone(section: Section, ranges: Sequence[RankRange], *, short: bool) -> str:
    """Returns the evidence that every process ran on its own; empty where there is none."""
    single = sum(r.high == 1 for r in ranges)
    evidence: list[str] = []
    if single and 2 * single >= len([r for r in ranges if r.tells]):
        evidence.append("busbw is 0.00 where algbw is not")
    if section.nranks == {1}:
        evidence.append("the log says nranks 1")
    if evidence and short:
        evidence.append("times are below 1 us")
    return ", ".join(evidence)


def _agree(size: int, telling: Sequence[RankRange]) -> bool:
    """Returns whether all but a few rows agree with a world size."""
    against = sum(size not in r for r in telling)
    return 3 * against < len(telling) or against == 0


def _span(possible: RankRange) -> str:
    if possible.low == possible.high:
        return str(possible.low)
    return f"{possible.low} to {possible.high}"
