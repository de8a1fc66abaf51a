"""Public traces of spot VMs, as the supply of a played cloud.

Two forms: counts over time, run-length coded (`kind,nodes,collection,cloud,zone,device,gap_seconds,
start_tick,ticks,available`; Mao et al. 2024, "spot traces"), and nodes that come and go
(`trace,time_ms,event,node`; Thorpe et al. 2023, "Bamboo").
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from srifty.core.scenario import Supply
from srifty.errors import InputError
from srifty.inputs import read_text

_KIND = "CSV file of a spot trace"
_COUNTS = ("kind", "zone", "device", "collection", "gap_seconds", "start_tick", "available")
_EVENTS = ("trace", "time_ms", "event", "node")


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """Which part of a file of traces.

    Attributes:
        columns: what the columns of the wanted rows say, such as `zone` and its value.
        start_s: seconds of the trace that have passed when the run begins.
        inverted: whether 1 stands for "cannot be had": the counts of one node are read both ways.
        times: VMs that one of the trace counts for.
    """

    columns: Mapping[str, str]
    start_s: float = 0.0
    inverted: bool = False
    times: int = 1


def read_supply(path: Path, choice: TraceChoice) -> tuple[Supply, ...]:
    """Returns the supply that a trace tells of, from `start_s` on.

    Raises:
        InputError: the file cannot be read, is in neither form, has bad rows, or has no such rows,
            or rows of several traces.
    """
    reader = csv.DictReader(read_text(path, _KIND).splitlines())
    columns = reader.fieldnames or ()
    rows = [
        (reader.line_num, row)
        for row in reader
        if all(row.get(name) == value for name, value in choice.columns.items())
    ]
    unknown = sorted(set(choice.columns) - set(columns))
    if unknown:
        raise InputError(f"has no column {', '.join(unknown)}", str(path))
    if not rows:
        said = ", ".join(f"{name} {value}" for name, value in choice.columns.items())
        raise InputError(f"has no rows of {said}", str(path))
    try:
        if set(_COUNTS) <= set(columns):
            changes = _counts(rows, choice, path)
        elif set(_EVENTS) <= set(columns):
            changes = _nodes(rows, choice, path)
        else:
            raise InputError(
                f"is no trace of spot VMs: it needs the columns {','.join(_COUNTS)} or "
                f"{','.join(_EVENTS)}",
                str(path),
            )
    except (ValueError, TypeError) as error:
        raise InputError(f"has a row that cannot be read: {error}", str(path)) from None
    return _from(changes, choice.start_s)


def _require_one(values: Iterable[tuple[str, ...]], names: Sequence[str], path: Path) -> None:
    several = sorted(set(values))
    if len(several) > 1:
        first, second = (", ".join(each) for each in several[:2])
        raise InputError(
            f"holds several such traces ({first}; {second}; ...): say which, by {', '.join(names)}",
            str(path),
        )


def _counts(
    rows: Sequence[tuple[int, Mapping[str, str]]], choice: TraceChoice, path: Path
) -> list[tuple[float, int]]:
    names = ("kind", "collection", "zone", "device", *(("nodes",) if "nodes" in rows[0][1] else ()))
    _require_one((tuple(row[name] for name in names) for _, row in rows), names, path)
    changes: list[tuple[float, int]] = []
    for line, row in rows:
        count = int(row["available"])
        if choice.inverted and count not in (0, 1):
            raise InputError(f"line {line}: only counts of 0 and 1 can be inverted", str(path))
        vms = 1 - count if choice.inverted else count
        changes.append((int(row["start_tick"]) * float(row["gap_seconds"]), vms * choice.times))
    return sorted(changes)


def _nodes(
    rows: Sequence[tuple[int, Mapping[str, str]]], choice: TraceChoice, path: Path
) -> list[tuple[float, int]]:
    _require_one(((row["trace"],) for _, row in rows), ("trace",), path)
    held: set[str] = set()
    counts: dict[float, int] = {}
    for line, row in sorted(rows, key=lambda numbered: float(numbered[1]["time_ms"])):
        if row["event"] not in ("add", "remove"):
            raise InputError(
                f"line {line}: event must be add or remove, not {row['event']!r}", str(path)
            )
        (held.add if row["event"] == "add" else held.discard)(row["node"])
        counts[float(row["time_ms"]) / 1000] = len(held) * choice.times
    return [(0.0, 0), *counts.items()] if min(counts) > 0 else list(counts.items())


def _from(changes: Sequence[tuple[float, int]], start_s: float) -> tuple[Supply, ...]:
    before = [vms for at_s, vms in changes if at_s <= start_s]
    first = before[-1] if before else changes[0][1]
    supply = [Supply(0.0, first)]
    for at_s, vms in changes:
        if at_s > start_s and vms != supply[-1].vms:
            supply.append(Supply(at_s - start_s, vms))
    return tuple(supply)
