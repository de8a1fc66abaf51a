"""CSV of measured latencies, for `srifty evaluate compute`."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from srifty.errors import InputError, Problem
from srifty.files._reading import raise_problems
from srifty.inputs import read_text

_KIND = "CSV file of latencies"
_REQUIRED = ("workload", "gpu", "batch_size", "latency_s")
_PARTS = {"iteration": "latency_s", "forward": "forward_s", "backward": "backward_s"}
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class LatencyCurve:
    """Measured latencies of one workload on one GPU.

    Attributes:
        workload: the workload's name.
        gpu: name of the GPU model.
        part: `iteration`, `forward` or `backward`.
        batches: batch sizes, ascending, each once.
        latencies_s: mean latency at each, seconds.
    """

    workload: str
    gpu: str
    part: str
    batches: tuple[int, ...]
    latencies_s: tuple[float, ...]


def read_latency_curves(path: Path) -> tuple[LatencyCurve, ...]:
    """Returns the curves of a CSV file; repeats of one batch size are averaged.

    Columns: `workload,gpu,batch_size,latency_s` and, where known, `forward_s,backward_s`; others
    are ignored.

    Raises:
        InputError: the file cannot be read, lacks a column, or has bad rows.
    """
    reader = csv.DictReader(read_text(path, _KIND).splitlines())
    columns = reader.fieldnames or ()
    missing = [name for name in _REQUIRED if name not in columns]
    if missing:
        raise InputError(
            f"lacks the column(s) {', '.join(missing)}; a {_KIND} has the columns "
            f"{', '.join(_REQUIRED)} and, where known, forward_s and backward_s",
            str(path),
        )
    values: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    problems: list[Problem] = []
    for row in reader:
        for part, column in _PARTS.items():
            text = row.get(column) or ""
            if not text.strip() and part != "iteration":
                continue
            try:
                batch, seconds = _batch(row["batch_size"]), _seconds(column, text)
            except ValueError as error:
                problems.append(Problem(f"line {reader.line_num}", str(error)))
                break
            curve = values.setdefault((row["workload"], row["gpu"], part), defaultdict(list))
            curve[batch].append(seconds)
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], Problem("", f"and {more} more bad rows")]
    raise_problems(problems, str(path))
    if not values:
        raise InputError("has no rows", str(path))
    return tuple(
        LatencyCurve(
            workload,
            gpu,
            part,
            tuple(sorted(curve)),
            tuple(fmean(curve[batch]) for batch in sorted(curve)),
        )
        for (workload, gpu, part), curve in values.items()
    )


def _batch(text: str | None) -> int:
    try:
        batch = int(text or "")
    except ValueError:
        batch = 0
    if batch < 1:
        raise ValueError(f"batch_size must be a whole number of at least 1, not {text!r}")
    return batch


def _seconds(column: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{column} must be seconds above 0, not {text!r}")
    return seconds
