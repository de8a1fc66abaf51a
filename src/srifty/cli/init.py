"""`srifty init`: write a commented job file to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.errors import InputError

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty init -o job.yaml")
def init(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="JOB.yaml", help="Where to write it.")
    ] = Path("job.yaml"),
    as_json: AsJson = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a commented job file to start from."""
    template = resources.files("srifty").joinpath("data", "job.yaml").read_text(encoding="utf-8")
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError:
        raise InputError("exists already; give --force to replace it", str(output)) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(output)) from None
    if as_json:
        typer.echo(dump({"written": str(output)}))
    typer.echo(f"Wrote {output}. Edit it, then: srifty plan {output}", err=True)
