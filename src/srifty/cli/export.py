"""`srifty export`: a plan for the launcher that people have already."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cloud.export import Deployment, ExportFormat, export
from srifty.errors import InputError
from srifty.files import read_job, read_plan

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

_SCRIPT = "train.py"
_ZONE = re.compile(r"([^=\s]+)=([^=\s]+)")


@app.command(
    epilog="Example: srifty export plan.json --format sbatch -o train.sbatch -- train.py --lr 0.1"
)
def export_command(
    plan_path: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="What srifty plan -o wrote.")
    ],
    kind: Annotated[ExportFormat, typer.Option("--format", help="Whose words to put it in.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- SCRIPT [ARGS]", help="The training script; train.py if left out."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ] = None,
    job_path: Annotated[
        Path | None,
        typer.Option(
            "--job", metavar="JOB.yaml", help="Whose `run` to use instead of the plan's own."
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="The project of Google Cloud that pays; for ray.")
    ] = None,
    zones: Annotated[
        list[str] | None,
        typer.Option(
            "--zone", metavar="ID=NAME", help="What your account calls a zone: use1-az5=us-east-1b."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a plan in another launcher's words, with each worker's share."""
    plan = read_plan(plan_path)
    if job_path is not None:
        plan = replace(plan, settings=read_job(job_path).settings)
    deployment = Deployment(
        plan, tuple(command or (_SCRIPT,)), project=project, zone_names=_zone_names(zones or ())
    )
    try:
        exported = export(deployment, kind)
    except InputError as error:
        raise InputError(error.problems, error.source or str(plan_path)) from None
    if output is not None:
        try:
            output.write_text(exported.text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", str(output)) from None
    notes = list(exported.notes)
    if not command:
        notes.insert(0, f"No script was named, so {_SCRIPT} is started: put -- SCRIPT [ARGS] last.")
    if as_json:
        document = {
            "format": str(kind),
            "file_name": exported.file_name,
            "text": exported.text,
            "start": list(exported.start),
            "notes": notes,
        }
        typer.echo(dump(document))
        return
    if output is None:
        typer.echo(exported.text, nl=False)
    else:
        typer.echo(f"Wrote {output}.", err=True)
    for line in exported.start:
        shown = line if output is None else line.replace(exported.file_name, str(output))
        typer.echo(f"Start: {shown}", err=True)
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def _zone_names(pairs: list[str] | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for pair in pairs:
        match = _ZONE.fullmatch(pair)
        if match is None:
            raise InputError(f"takes ID=NAME, such as use1-az5=us-east-1b, not {pair!r}", "--zone")
        found.append((match[1], match[2]))
    return tuple(found)
