"""`srifty report`: a plan or a run as a page, or a run's outcome in the terminal."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from srifty.cli._digest import digest_of
from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._run_show import show_outcome, timeline
from srifty.cli._runs import RunPlace, find_run
from srifty.cli._show import console_for_results
from srifty.cli.compare import compared
from srifty.cloud.clock import Clock
from srifty.control.history import story
from srifty.control.ledger import Ledger
from srifty.core.job import BatchRule, Objective
from srifty.errors import InputError
from srifty.files.plan_document import PlanDocument, read_plan_document
from srifty.units import format_duration, format_usd

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty report plan.json -o report.html")
def report(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PLAN.json|RUN", help="What srifty plan -o wrote, or a run's name or folder."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="REPORT.html", help="Write a page that any browser opens."
        ),
    ] = None,
    with_baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="A plan's page: have the other methods plan the job again, for comparison.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Show a plan or a run as a page; without -o, say what a run did and cost.

    The page is one file that needs no network. Forecasts stand beside outcomes.
    """
    if subject.endswith(".json"):
        _report_plan(Path(subject), output, with_baselines=with_baselines, as_json=as_json)
        return
    place = find_run(subject)
    document = story_of(place)
    if output is not None:
        _write(output, report_room().run_page(document))
    if as_json:
        typer.echo(dump(document))
    elif output is None:
        _show_run(document)


def story_of(place: RunPlace) -> dict[str, Any]:
    """Returns what a run's ledger says now, and how the run came there."""
    with Ledger.read(place.ledger) as ledger:
        record = ledger.run()
        clock = Clock(record.began_unix_s, record.clock_factor)
        return story(ledger, clock.now_s(), is_controlled=place.controller is not None)


def report_room() -> Any:
    """Returns the room that makes pages.

    Raises:
        InputError: Jinja2, which it needs, is not installed.
    """
    try:
        return importlib.import_module("srifty.report")
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise InputError('pages need Jinja2: pip install "srifty[report]"') from None


def _report_plan(path: Path, output: Path | None, *, with_baselines: bool, as_json: bool) -> None:
    document = read_plan_document(path)
    if output is None:
        raise InputError(
            "say where to write the page: srifty report PLAN.json -o report.html", "-o"
        )
    room = report_room()
    found, reason = None, "Left out, as asked (--no-baselines)."
    if with_baselines:
        found, reason = _compared(document)
    _write(output, room.plan_page(document, found, not_compared=reason))
    if as_json:
        typer.echo(dump({"page": str(output), "baselines": found}))


def _compared(document: PlanDocument) -> tuple[dict[str, Any] | None, str]:
    """Returns what the other methods choose for a plan's job; None with why they were not asked."""
    asked = document.request
    if asked is None:
        return None, "Not computed: this plan does not say what was asked; plan anew."
    job = Path(asked.job_file)
    try:
        is_same = digest_of(job) == asked.digest
    except InputError:
        return None, f"Not computed: the job file {job} is not there any more."
    if not is_same:
        return None, f"Not computed: the job file {job} is not what it was when this was planned."
    try:
        found = compared(
            job,
            asked.changes,
            minimize=Objective(asked.minimize),
            confidence=asked.confidence,
            batches=BatchRule(asked.batches),
            accumulate=asked.accumulate,
        )
    except InputError as error:
        return None, f"Not computed: {error}."
    return json.loads(dump(found)), ""


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None
    typer.echo(f"wrote {path} ({len(page.encode()) / 1000:,.0f} kB)", err=True)


def _billed(seconds: float) -> str:
    """Returns how long was billed; spot VMs that AWS takes back in their first hour are free."""
    return format_duration(seconds) if seconds else "nothing billed"


def _show_run(document: dict[str, Any]) -> None:
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
        table.add_row(line["name"], _billed(line["billed_s"]), format_usd(line["usd_total"]))
    console.print(table)
