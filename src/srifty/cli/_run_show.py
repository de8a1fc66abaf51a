"""A run as people read it."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from srifty.units import format_duration, format_usd


def show_outcome(console: Console, document: dict[str, Any]) -> None:
    """Prints how a run ended, forecasts beside outcomes.

    Args:
        console: for standard output.
        document: what `summary` returned.
    """
    is_good = document["state"] == "finished"
    console.print(
        Text(f"{document['run']}: {document['state']}", style="bold green" if is_good else "bold")
    )
    if document["message"]:
        console.print(f"  {document['message']}")
    console.print(
        f"  {document['iteration']:,.0f} of {document['iterations']:,} {document['unit']} in "
        f"{format_duration(document['at_s'])}, {format_usd(document['spent_usd_total'])} in total"
    )
    if document["forecasts"]:
        console.print(forecast_table(document))


def forecast_table(document: dict[str, Any]) -> Table:
    """Returns what was forecast at the start, beside what came."""
    table = Table(box=None, padding=(0, 2))
    for name in ("", "forecast", "90 % within", "came"):
        table.add_column(name)
    ended = document["state"] not in ("running", "without a controller")
    for forecast in document["forecasts"][:1]:
        time_s, cost = forecast["time_s"], forecast["cost_usd"]
        came_s = format_duration(document["at_s"]) if ended else "-"
        table.add_row(
            "time", format_duration(time_s["mean"]), format_duration(time_s["p90"]), came_s
        )
        came_usd = format_usd(document["spent_usd_total"]) if ended else "-"
        table.add_row("cost in total", format_usd(cost["mean"]), format_usd(cost["p90"]), came_usd)
    return table


def status_lines(document: dict[str, Any]) -> list[str]:
    """Returns where a run stands, a line for each thing."""
    done, total = document["iteration"], document["iterations"]
    lines = [
        f"{document['run']} on {document['backend']}: {document['state']}, "
        f"{format_duration(document['at_s'])} since the command",
        f"  {done:,.0f} of {total:,} {document['unit']} ({done / total:.0%}), "
        f"{document['durable_iteration']:,.0f} of them saved",
        f"  {document['config'] or _rented(document)}",
        f"  {format_usd(document['spent_usd_total'])} in total so far, "
        f"{format_usd(document['usd_per_hour'])} per hour now",
    ]
    if document["cap_usd"] is not None:
        lines[-1] += f"; at most {format_usd(document['cap_usd'])} in total"
    pace = document["iterations_per_s"]
    if pace and document["state"] == "running":
        left_s = (total - done) / pace
        line = f"  {pace:.3g} {document['unit']} per second: {format_duration(left_s)} to go"
        if document["deadline_s"] is not None:
            spare_s = document["deadline_s"] - document["at_s"] - left_s
            words = "before" if spare_s >= 0 else "AFTER"
            line += f", {format_duration(abs(spare_s))} {words} the deadline"
        lines.append(line)
    if document["message"]:
        lines.append(f"  {document['message']}")
    if document["state"] == "without a controller":
        run = document["run"]
        lines.append(
            f"  What stands here is what was last noted. srifty resume {run} goes on, srifty stop "
            f"{run} saves and releases everything."
        )
    return lines


def _rented(document: dict[str, Any]) -> str:
    """Returns what is rented where no plan says so."""
    there = [vm for vm in document["vms"] if vm["phase"] != "gone"]
    if there:
        return ", ".join(f"{vm['vm']} ({vm['pool']})" for vm in there)
    return "nothing rented any more" if document["vms"] else "nothing rented yet"


def picture(document: dict[str, Any], events: int = 12) -> Group:
    """Returns a screen of a run: progress, VMs, the last things that happened."""
    done, total = document["iteration"], document["iterations"]
    width = 40
    filled = round(width * min(done / total, 1.0))
    saved = round(width * min(document["durable_iteration"] / total, 1.0))
    bar = "█" * saved + "▓" * max(filled - saved, 0) + "░" * (width - max(filled, saved))
    vms = Table(box=None, padding=(0, 2))
    vms.add_column("VM")
    vms.add_column("from")
    vms.add_column("is")
    for vm in [vm for vm in document["vms"] if vm["phase"] != "gone"]:
        vms.add_row(vm["vm"], vm["pool"], vm["phase"])
    return Group(
        *(Text(line) for line in status_lines(document)),
        Text(f"  {bar}", style="green"),
        vms,
        *(Text(line, style="dim") for line in timeline(document)[-events:]),
    )


def timeline(document: dict[str, Any]) -> list[str]:
    """Returns what happened and was decided, in the order of time."""
    lines: list[tuple[float, str]] = []
    for event in document["events"]:
        detail = f": {event['detail']}" if event["detail"] else ""
        lines.append((event["at_s"], f"{event['vm']}, {event['pool']}: {event['kind']}{detail}"))
    for decision in document["decisions"]:
        words = decision["config"] or "nothing"
        lines.append(
            (decision["at_s"], f"decided to {decision['kind']}: {words} ({decision['because']})")
        )
    lines += [
        (w["at_s"], f"training on {w['config']} from iteration {w['from_iteration']:,}")
        for w in document["worlds"]
    ]
    return [f"{at_s:9.1f} s  {words}" for at_s, words in sorted(lines, key=lambda line: line[0])]
