"""CSV of what happened to VMs: how often they were lost."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from srifty.core.interruptions import InterruptionRate
from srifty.errors import InputError, Problem
from srifty.files._reading import raise_problems, shown
from srifty.inputs import read_text

_KIND = "CSV file of VM events"
_REQUIRED = ("time_s", "vm", "event")
_EVENTS = ("up", "lost", "down")
_MOST_PROBLEMS = 20


def read_interruptions(path: Path) -> InterruptionRate:
    """Returns the rate at which VMs were lost.

    Columns: `time_s` (from any moment on, never falling), `vm` and `event`: `up` when it began to
    run, `lost` when the provider took it back, `down` when its user let it go. A VM that is still
    up at the last event ran until then.

    With n losses in H hours that VMs ran, the rate is (n + ½)/H and its logarithm uncertain by
    1/√(n + ½): the posterior of a Poisson count under Jeffreys' prior, to first order.

    Raises:
        InputError: the file cannot be read, lacks a column, has bad rows, or VMs that never ran.
    """
    reader = csv.DictReader(read_text(path, _KIND).splitlines())
    missing = [name for name in _REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"lacks the column(s) {', '.join(missing)}; a {_KIND} has the columns "
            f"{', '.join(_REQUIRED)}",
            str(path),
        )
    problems: list[Problem] = []
    up: dict[str, float] = {}
    ran_s, losses, now_s = 0.0, 0, -math.inf
    for row in reader:
        try:
            time_s, vm, event = _row(row, up, now_s)
        except ValueError as error:
            problems.append(Problem(f"line {reader.line_num}", str(error)))
            continue
        now_s = time_s
        if event == "up":
            up[vm] = time_s
        else:
            ran_s += time_s - up.pop(vm)
            losses += event == "lost"
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], Problem("", f"and {more} more bad rows")]
    raise_problems(problems, str(path))
    hours = (ran_s + sum(now_s - since_s for since_s in up.values())) / 3600
    if not hours > 0:
        raise InputError("no VM ran in it for any time", str(path))
    count = losses + 0.5
    source = f"{path.name}: {losses} lost in {hours:.4g} VM-hours"
    return InterruptionRate(count / hours, count**-0.5, source)


def _row(row: dict[str, str], up: dict[str, float], now_s: float) -> tuple[float, str, str]:
    """Returns time, VM and event of a row; raises ValueError with what is wrong."""
    vm, event = (row.get("vm") or "").strip(), (row.get("event") or "").strip()
    try:
        time_s = float(row.get("time_s") or "")
    except ValueError:
        time_s = math.nan
    if not math.isfinite(time_s):
        raise ValueError(f"time_s must be seconds, not {shown(row.get('time_s'))}")
    if time_s < now_s:
        raise ValueError(f"time_s {time_s:g} comes after {now_s:g}; sort the rows by time")
    if not vm:
        raise ValueError("vm is empty")
    if event not in _EVENTS:
        raise ValueError(f"event must be one of {', '.join(_EVENTS)}, not {shown(event)}")
    if (event == "up") == (vm in up):
        raise ValueError(f"{vm} is {event}, but {'already' if event == 'up' else 'not'} up")
    return time_s, vm, event
