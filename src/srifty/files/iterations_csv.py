"""CSV of observed iteration times, for `srifty evaluate iterations` and for calibration."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from srifty.core.observation import Observation, spread_evenly
from srifty.errors import InputError, Problem
from srifty.files._reading import raise_problems
from srifty.inputs import read_text

_KIND = "CSV file of iteration times"
_REQUIRED = ("workload", "gpu", "instance_type", "local_batch", "step_s")
_OPTIONAL = (
    "placement", "vms", "workers", "accumulation", "gradient_bytes", "rated_gbit_per_s", "sync_s",
)  # fmt: skip
_MOST_PROBLEMS = 20
_Value = TypeVar("_Value", int, float)


@dataclass(frozen=True)
class ObservedIterations:
    """What a file of iteration times says.

    Attributes:
        observations: one per row, in the file's order.
        gradient_bytes: bytes of all gradients by workload, where the file states them.
        rated_gbit_per_s: the network's rate by instance type, where the file states it.
        spread_rows: rows that gave `vms` and `workers` only; their workers are spread as evenly as
            possible.
        ignored: columns that were not read.
    """

    observations: tuple[Observation, ...]
    gradient_bytes: Mapping[str, int]
    rated_gbit_per_s: Mapping[str, float]
    spread_rows: int
    ignored: tuple[str, ...] = ()


def read_iterations(path: Path) -> ObservedIterations:
    """Returns the observations of a CSV file.

    Columns: `workload,gpu,instance_type,local_batch,step_s` and either `placement` (GPUs used of
    each VM, `4-4-2`) or `vms,workers`; where known, `accumulation` (passes per iteration, 1 if
    empty), `gradient_bytes` (one value per workload), `rated_gbit_per_s` (one value per instance
    type) and `sync_s`, which is checked but not used. Others are in `ignored`.

    Raises:
        InputError: the file cannot be read, lacks a column or has it twice, or has bad rows
            (all reported).
    """
    source = str(path)
    reader = csv.DictReader(read_text(path, _KIND).splitlines())
    columns = reader.fieldnames or ()
    missing = [name for name in _REQUIRED if name not in columns]
    if "placement" not in columns and not {"vms", "workers"} <= set(columns):
        missing.append("placement (or vms and workers)")
    if missing:
        raise InputError(
            f"lacks the column(s) {', '.join(missing)}; a {_KIND} has the columns "
            f"{', '.join(_REQUIRED)}, and placement (such as 4-4-2) or vms and workers",
            source,
        )
    if twice := sorted({name for name in columns if list(columns).count(name) > 1}):
        raise InputError(f"has the column(s) {', '.join(twice)} twice: keep one of each", source)
    observations: list[Observation] = []
    sizes: dict[str, int] = {}
    rates: dict[str, float] = {}
    problems: list[Problem] = []
    spread_rows = 0
    try:
        for row in reader:
            try:
                observation = _observation(row)
                _learn(sizes, observation.workload, row, "gradient_bytes", _whole)
                _learn(rates, observation.instance_type, row, "rated_gbit_per_s", _rate)
                _check_sync(row)
            except InputError as error:
                problems += [Problem(f"line {reader.line_num}", p.message) for p in error.problems]
                continue
            observations.append(observation)
            spread_rows += not _cell(row, "placement")
    except csv.Error as error:
        raise InputError(f"is no CSV after line {reader.line_num}: {error}", source) from None
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], Problem("", f"and {more} more bad rows")]
    raise_problems(problems, source)
    if not observations:
        raise InputError("has no rows", source)
    ignored = tuple(name for name in columns if name not in (*_REQUIRED, *_OPTIONAL))
    return ObservedIterations(tuple(observations), sizes, rates, spread_rows, ignored)


def _observation(row: Mapping[str, str | None]) -> Observation:
    return Observation(
        workload=_cell(row, "workload"),
        gpu=_cell(row, "gpu"),
        instance_type=_cell(row, "instance_type"),
        gpus_used=_placement(row),
        local_batch=_whole(row, "local_batch"),
        step_s=_seconds(row, "step_s"),
        accumulation=_whole(row, "accumulation") if _cell(row, "accumulation") else 1,
    )


def _placement(row: Mapping[str, str | None]) -> tuple[int, ...]:
    text = _cell(row, "placement")
    if not text:
        if not (_cell(row, "vms") or _cell(row, "workers")):
            raise InputError(
                "placement is empty; write the GPUs used of each VM, such as 4-4-2, or give vms "
                "and workers"
            )
        vms, workers = _whole(row, "vms"), _whole(row, "workers")
        if vms > workers:
            raise InputError(f"{vms} vms cannot hold only {workers} workers")
        return spread_evenly(workers, vms)
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"placement must be the GPUs used of each VM, such as 4-4-2, not {text!r}")
    used = tuple(int(part) for part in parts)
    for name, value in (("vms", len(used)), ("workers", sum(used))):
        if _cell(row, name) and _whole(row, name) != value:
            raise InputError(
                f"placement {text} has {value} {name}, but column {name} says {_cell(row, name)}"
            )
    return used


def _learn(
    stated: dict[str, _Value],
    about: str,
    row: Mapping[str, str | None],
    column: str,
    read: Callable[[Mapping[str, str | None], str], _Value],
) -> None:
    """Keeps what a row says of its workload or type, of which the file may say one thing alone."""
    if not _cell(row, column):
        return
    value = read(row, column)
    if stated.setdefault(about, value) != value:
        raise InputError(
            f"{column} of {about} is {value} here, but {stated[about]} before; it has one"
        )


def _check_sync(row: Mapping[str, str | None]) -> None:
    text = _cell(row, "sync_s")
    try:
        fine = not text or (math.isfinite(float(text)) and float(text) >= 0)
    except ValueError:
        fine = False
    if not fine:
        raise InputError(f"sync_s must be seconds of 0 or more, or empty, not {text!r}")


def _cell(row: Mapping[str, str | None], name: str) -> str:
    return (row.get(name) or "").strip()


def _whole(row: Mapping[str, str | None], name: str) -> int:
    text = _cell(row, name)
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 16 and int(text) >= 1):
        raise InputError(f"{name} must be a whole number of at least 1, not {text!r}")
    return int(text)


def _seconds(row: Mapping[str, str | None], name: str) -> float:
    return _above_zero(row, name, "seconds")


def _rate(row: Mapping[str, str | None], name: str) -> float:
    return _above_zero(row, name, "Gbit/s")


def _above_zero(row: Mapping[str, str | None], name: str, unit: str) -> float:
    text = _cell(row, name)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be {unit} above 0, not {text!r}")
    return value
