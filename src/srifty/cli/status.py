"""`srifty status`: say where a run stands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._run_show import status_lines
from srifty.cli._runs import RunPlace, find_run
from srifty.cloud.clock import Clock
from srifty.control.ledger import Ledger
from srifty.control.summary import summary

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run's name, or its folder.")]


@app.command(epilog="Example: srifty status resnet50-20261130-101500")
def status(run: RunName, as_json: AsJson = False) -> None:
    """Say where a run stands."""
    document = summary_of(find_run(run))
    if as_json:
        typer.echo(dump(document))
        return
    for line in status_lines(document):
        typer.echo(line)


def summary_of(place: RunPlace) -> dict[str, Any]:
    """Returns what a run's ledger says now."""
    with Ledger.read(place.ledger) as ledger:
        record = ledger.run()
        clock = Clock(record.began_unix_s, record.clock_factor)
        return summary(ledger, clock.now_s(), is_controlled=place.controller is not None)
