"""`srifty resume`: go on with a run whose controller is gone."""

from __future__ import annotations

import typer

from srifty.cli._json import dump
from srifty.cli._live_prices import at_prices, read_price_records
from srifty.cli._options import AsJson
from srifty.cli._run_show import show_outcome
from srifty.cli._runs import control, ended, find_run, order_of, planning_of, reopened_job, tell
from srifty.cli._show import console_for_results
from srifty.cli.status import RunName, summary_of
from srifty.control.ledger import Ledger
from srifty.errors import InputError

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty resume resnet50-20261130-101500")
def resume(run: RunName, as_json: AsJson = False) -> None:
    """Go on with a run whose controller is gone; exits as `srifty run` does."""
    place = find_run(run)
    place.stop.unlink(missing_ok=True)
    with Ledger.open(place.ledger) as ledger:
        record = ledger.run()
        if record.outcome is not None:
            raise InputError(
                f"has ended: {record.outcome['message']} What it saved stays in its folder: a new "
                "run goes on from there if run.checkpoint in the job file names it",
                run,
            )
        if "backends" in record.document:
            raise InputError(
                f"measures and is not gone on with; release its VMs with srifty stop {run}, and "
                "measure anew",
                run,
            )
        bench, job = reopened_job(record)
        order = order_of(record, bench, place)
        prices = read_price_records(record.document.get("prices", []))
        planning = at_prices(planning_of(bench, job), prices)
        outcome = control(place, ledger, planning, order, tell)
    document = summary_of(place)
    if as_json:
        typer.echo(dump(document))
    else:
        show_outcome(console_for_results(), document)
    raise typer.Exit(ended({"ending": outcome.ending}))
