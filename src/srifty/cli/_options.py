"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a setting of the job file; may be given several times.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--db",
        metavar="PATH",
        help="The store of samples; default: what SRIFTY_DB names, else srifty.db in your data "
        "folder.",
    ),
]
