"""Allreduce samples from CSV files, and the built-in ones."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from srifty.core.allreduce import AllreduceSample
from srifty.errors import InputError, Problem

_REQUIRED = ("instance_type", "nodes", "world_size", "size_bytes", "time_us")
_MOST_PROBLEMS = 20


def read_samples(path: Path) -> tuple[AllreduceSample, ...]:
    """Returns the samples of a CSV file.

    Columns: `instance_type, nodes, world_size, size_bytes, time_us` and, where known, `cloud,
    transport, nccl_version, source`; others are ignored.

    Raises:
        InputError: the file cannot be read, lacks a column, or has bad rows (all reported).
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a CSV file: {error}", str(path)) from error
    return _parse(text.splitlines(), str(path))


def builtin_samples() -> tuple[AllreduceSample, ...]:
    """Returns the samples that Srifty ships, taken from public logs (each with its source)."""
    text = resources.files("srifty").joinpath("data", "allreduce.csv").read_text(encoding="utf-8")
    return _parse(text.splitlines(), "built-in allreduce samples")


def _parse(lines: Iterable[str], source: str) -> tuple[AllreduceSample, ...]:
    reader = csv.DictReader(lines)
    missing = [name for name in _REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"lacks the column(s) {', '.join(missing)}", source)
    samples: list[AllreduceSample] = []
    problems: list[Problem] = []
    for row in reader:
        try:
            samples.append(_sample(row))
        except InputError as error:
            problems += [Problem(f"line {reader.line_num}", p.message) for p in error.problems]
    if problems:
        hidden = len(problems) - _MOST_PROBLEMS
        if hidden > 0:
            problems = [*problems[:_MOST_PROBLEMS], Problem("", f"and {hidden} more bad rows")]
        raise InputError(problems, source)
    if not samples:
        raise InputError("has no rows", source)
    return tuple(samples)


def _sample(row: dict[str, str | None]) -> AllreduceSample:
    kind = row["instance_type"]
    if not kind:
        raise InputError("instance_type is empty")
    return AllreduceSample(
        instance_type=kind,
        vms=_whole(row, "nodes"),
        world_size=_whole(row, "world_size"),
        size_bytes=_whole(row, "size_bytes"),
        time_s=_number(row, "time_us") * 1e-6,
        cloud=row.get("cloud") or "",
        transport=row.get("transport") or "",
        library_version=row.get("nccl_version") or "",
        source=row.get("source") or "",
    )


def _whole(row: dict[str, str | None], name: str) -> int:
    try:
        return int(row[name] or "")
    except ValueError:
        raise InputError(f"{name} must be a whole number, not {row[name]!r}") from None


def _number(row: dict[str, str | None], name: str) -> float:
    try:
        return float(row[name] or "")
    except ValueError:
        raise InputError(f"{name} must be a number, not {row[name]!r}") from None
