"""What happened in a run and what was decided, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srifty.report.quantities import UNKNOWN, dollars, duration, hourly, moment
from srifty.report.run_canvas import Story
from srifty.report.table import Row, Table, columns

# Rows that a page has room for; older ones are told of by number.
_MOST_ROWS = 150
_MOST_DECISIONS = 60
# Letters of a provider's answer that a table has room for.
_MOST_LETTERS = 300
# What happens to VMs of a pool so soon after each other is one thing.
_TOGETHER_S = 1.0
_MOST_NAMES = 6

_ENDINGS = {"_usd_per_hour": hourly, "_usd": dollars, "_s": duration}


def happenings_table(story: Story) -> Table:
    """Returns events, decisions and worlds in the order of time, the newest first."""
    rows: list[tuple[float, Row]] = []
    for index, vms, event in _together(story["events"]):
        at = moment(event["at_s"], f"events.{index}.at_s")
        what = f"{_named(vms)}: {event['kind']}"
        rows.append((event["at_s"], Row((at, what, event["pool"], _cut(event["detail"])))))
    for index, one in enumerate(story["decisions"]):
        at = moment(one["at_s"], f"decisions.{index}.at_s")
        config = one["config"] or "nothing"
        row = Row((at, f"decided to {one['kind']}", config, one["because"]), is_marked=True)
        rows.append((one["at_s"], row))
    for index, world in enumerate(story["worlds"]):
        at = moment(world["at_s"], f"worlds.{index}.at_s")
        why = f"from iteration {world['from_iteration']:,}"
        rows.append((world["at_s"], Row((at, "training begins", world["config"], why))))
    rows.sort(key=lambda entry: entry[0], reverse=True)
    kept = tuple(row for _, row in rows[:_MOST_ROWS])
    caption = "Newest first; decisions stand out, and each says why"
    if len(rows) > len(kept):
        caption += f"; {len(rows) - len(kept):,} earlier entries are in srifty report --json"
    return Table(caption, columns("#at, h:mm:ss", "what", "on what", "why"), kept)


def _together(
    events: Sequence[Mapping[str, Any]],
) -> list[tuple[int, list[str], Mapping[str, Any]]]:
    """Returns (number of the first event, VMs, first event) of what is one thing."""
    found: list[tuple[int, list[str], Mapping[str, Any]]] = []
    for index, event in enumerate(events):
        if found:
            _, vms, first = found[-1]
            is_same = all(event[key] == first[key] for key in ("kind", "pool", "detail"))
            if is_same and abs(event["at_s"] - first["at_s"]) <= _TOGETHER_S:
                vms.append(event["vm"])
                continue
        found.append((index, [event["vm"]], event))
    return found


def _cut(words: str) -> str:
    return words if len(words) <= _MOST_LETTERS else f"{words[:_MOST_LETTERS]}…"


def _named(vms: Sequence[str]) -> str:
    if len(vms) <= _MOST_NAMES:
        return ", ".join(vms)
    return f"{', '.join(vms[:_MOST_NAMES])} and {len(vms) - _MOST_NAMES} more"


def decisions_table(story: Story) -> Table | None:
    """Returns the figures that each decision rests on; None where nothing was decided."""
    decisions = story["decisions"]
    if not decisions:
        return None
    first = max(len(decisions) - _MOST_DECISIONS, 0)
    rows = tuple(
        Row(
            (
                moment(one["at_s"], f"decisions.{first + index}.at_s"),
                f"{one['kind']}: {one['because']}",
                "; ".join(_words(name, value) for name, value in one["numbers"].items()),
            )
        )
        for index, one in enumerate(decisions[first:])
    )
    return Table(
        "The figures that decisions rest on",
        columns("#at, h:mm:ss", "decision", "figures"),
        rows,
    )


def _words(name: str, value: float | None) -> str:
    for ending, make in _ENDINGS.items():
        if name.endswith(ending):
            return f"{name.removesuffix(ending).replace('_', ' ')} {make(value).text}"
    return f"{name.replace('_', ' ')} {UNKNOWN if value is None else f'{value:,.6g}'}"
