"""How a run went, over time: its progress, its money, its pace with the bound, its VMs' lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from srifty.control.ledger import Ledger
from srifty.control.pace import PaceRule, pace_of
from srifty.control.summary import summary
from srifty.core.events import Progress

# Points that a drawing can show apart; a day's run notes ten thousand.
_MOST_POINTS = 160
_MOST_PACES = 100

_Entry = TypeVar("_Entry")


def story(
    ledger: Ledger, now_s: float, *, is_controlled: bool, rule: PaceRule | None = None
) -> dict[str, Any]:
    """Returns where a run stands, and how it came there: `summary`, and `history` beside it.

    Args:
        ledger: of the run.
        now_s: seconds since the command.
        is_controlled: whether a controller is at work.
        rule: how the pace is measured.
    """
    document = summary(ledger, now_s, is_controlled=is_controlled)
    points = ledger.progress()
    began_s = [world["at_s"] for world in document["worlds"]]
    document["history"] = {
        "progress": [
            {
                "at_s": point.at_s,
                "iteration": point.iteration,
                "durable_iteration": point.durable_iteration,
                "spent_usd": point.spent_usd,
            }
            for point in _thinned(points, _MOST_POINTS)
        ],
        "pace": _paces(points, began_s, rule or PaceRule()),
        "rentals": [
            {
                "vm": vm.usage.name,
                "running_s": vm.usage.running_s,
                "stopped_s": vm.usage.stopped_s,
                "taken_back": vm.usage.taken_back,
                "usd_per_hour": vm.prices[-1].usd_per_hour,
            }
            for vm in ledger.vms()
        ],
    }
    return document


def _paces(
    points: Sequence[Progress], began_s: Iterable[float], rule: PaceRule
) -> list[dict[str, float]]:
    """Returns iterations per second over the window before each point, of one world each."""
    starts_s = [*sorted(began_s)]
    paces: list[dict[str, float]] = []
    for point in _thinned(points, _MOST_PACES):
        start_s = max((at_s for at_s in starts_s if at_s <= point.at_s), default=0.0)
        own = [one for one in points if start_s <= one.at_s <= point.at_s]
        pace = pace_of(_since_restart(own), rule)
        if pace is not None:
            paces.append({"at_s": point.at_s, "mean": pace.mean, "bound": pace.bound})
    return paces


def _since_restart(points: Sequence[Progress]) -> Sequence[Progress]:
    """Returns the last points among which no work was lost."""
    start = 0
    for index in range(1, len(points)):
        if points[index].iteration < points[index - 1].iteration:
            start = index
    return points[start:]


def _thinned(entries: Sequence[_Entry], most: int) -> list[_Entry]:
    """Returns at most so many entries, evenly chosen, the last one included."""
    if len(entries) <= most:
        return list(entries)
    step = (len(entries) - 1) / (most - 1)
    return [entries[round(index * step)] for index in range(most)]
