"""What other methods choose for the same job, judged by our simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srifty.report.quantities import UNKNOWN, difference, dollars, duration, odds
from srifty.report.table import Cell, Row, Table, columns


def rivals_table(compared: Mapping[str, Any]) -> Table:
    """Returns the table of a comparison.

    Args:
        compared: what `srifty compare --json` says.
    """
    rows = tuple(
        _row(method, f"baselines.methods.{index}")
        for index, method in enumerate(compared["methods"])
    )
    head = columns(
        *("method", "choice", "#its own forecast", "#we say: time", "#cost", "#limits kept"),
        "#over the best",
    )
    return Table("What other methods choose", head, rows)


def methods_told(compared: Mapping[str, Any]) -> list[str]:
    """Returns what each method is, a sentence for each."""
    return [f"{method['method']}: {method['about']}." for method in compared["methods"]]


def _row(method: Mapping[str, Any], source: str) -> Row:
    own, told = method["own"], method["simulated"]
    own_words = UNKNOWN
    if own is not None:
        own_words = (
            f"{duration(own['time_s']['mean']).text}, {dollars(own['cost_usd']['mean']).text}"
        )
    cells: tuple[Cell, ...] = (
        method["method"],
        method["choice"]["config"] if method["choice"] else f"none: {method['reason']}",
        own_words,
        duration(
            told and told["time_s"]["mean"], f"{source}.simulated.time_s.mean" if told else ""
        ),
        dollars(
            told and told["cost_usd"]["mean"], f"{source}.simulated.cost_usd.mean" if told else ""
        ),
        odds(
            told and told["success_probability"],
            f"{source}.simulated.success_probability" if told else "",
        ),
        difference(method["over_best"], f"{source}.over_best"),
    )
    return Row(cells, is_marked=method["method"] == "srifty")
