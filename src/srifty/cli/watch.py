"""`srifty watch`: show a run as it goes on."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.live import Live

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._run_show import picture
from srifty.cli._runs import find_run
from srifty.cli._show import console_for_results
from srifty.cli.status import RunName, summary_of

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty watch resnet50-20261130-101500")
def watch(
    run: RunName,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run as it goes on; Ctrl-C ends the showing, not the run."""
    place = find_run(run)
    document = summary_of(place)
    console = console_for_results()
    if as_json:
        typer.echo(dump(document))
        return
    if once or not console.is_terminal:
        console.print(picture(document))
        return
    with Live(picture(document), console=console, refresh_per_second=4) as live:
        while document["state"] in ("running", "without a controller"):
            time.sleep(every)
            document = summary_of(place)
            live.update(picture(document))
