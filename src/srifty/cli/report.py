"""`srifty report`: say what a run did and cost, forecasts beside outcomes."""

from __future__ import annotations

import typer
from rich.table import Table

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._run_show import show_outcome, timeline
from srifty.cli._runs import find_run
from srifty.cli._show import console_for_results
from srifty.cli.status import RunName, summary_of
from srifty.units import format_duration, format_usd

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty report resnet50-20261130-101500 --json")
def report(run: RunName, as_json: AsJson = False) -> None:
    """Say what a run did and cost, forecasts beside outcomes."""
    document = summary_of(find_run(run))
    if as_json:
        typer.echo(dump(document))
        return
    console = console_for_results()
    show_outcome(console, document)
    console.print()
    for line in timeline(document):
        console.print(line)
    console.print()
    table = Table(box=None, padding=(0, 2))
    for name in ("billed", "for", "in total"):
        table.add_column(name)
    for line in document["bill"]:
        table.add_row(
            line["name"], format_duration(line["billed_s"]), format_usd(line["usd_total"])
        )
    console.print(table)
