"""`srifty allreduce`: measured allreduces, kept and learned from; larger parts stand apart."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.allreduce.provenance import mixture_warnings
from srifty.allreduce.records import Forgotten, ImportedFile, StoredCurve
from srifty.allreduce.samples import parse_measured_at, write_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.cli._allreduce_evaluate import evaluate_models
from srifty.cli._allreduce_fit import fit_models
from srifty.cli._allreduce_import import import_measurements
from srifty.cli._allreduce_predict import predict_times
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._show import console_for_results
from srifty.errors import InputError
from srifty.units import format_bytes

app = typer.Typer(
    help="Keep measured allreduces, and forecast from them.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog="The store is the file that --db or SRIFTY_DB names; default "
    "~/.local/share/srifty/srifty.db",
)

_EMPTY = "The store ({path}) holds no samples; srifty allreduce import brings some."


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction] - typer calls it
    """Keep measured allreduces, and forecast from them."""


app.command(
    "import",
    epilog="Example: srifty allreduce import nccl.log --instance-type p4d.24xlarge --cloud aws",
)(import_measurements)


app.command("fit", epilog="Example: srifty allreduce fit --tune 50")(fit_models)
app.command(
    "predict",
    epilog="Example: srifty allreduce predict g4dn.8xlarge --world-size 8 --sizes 1MiB,25MiB",
)(predict_times)
app.command(
    "evaluate",
    epilog="Example: srifty allreduce evaluate --by largest-world-size --plot errors.svg",
)(evaluate_models)


@app.command("list", epilog="Example: srifty allreduce list --files")
def list_samples(
    files: Annotated[
        bool, typer.Option("--files", help="List the imports instead of the curves.")
    ] = False,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """List what the store holds: a curve a line, or an import a line."""
    path = db or store_path()
    curves: tuple[StoredCurve, ...] = ()
    imports: tuple[ImportedFile, ...] = ()
    if db is not None or path.exists():
        with SampleStore.open(path, create=False) as store:
            curves, imports = store.curves(), store.files()
    warnings = mixture_warnings(curves)
    if as_json:
        listed = (
            {"files": [_file_document(file) for file in imports]}
            if files
            else {"curves": [_curve_document(curve) for curve in curves]}
        )
        rows = sum(curve.rows for curve in curves)
        typer.echo(dump({**listed, "rows": rows, "warnings": list(warnings), "store": str(path)}))
        return
    if not curves:
        typer.echo(_EMPTY.format(path=path), err=True)
        return
    console = console_for_results()
    console.print(_file_table(imports) if files else _curve_table(curves))
    for warning in warnings:
        console.print(Text(f"mind: {warning}", style="yellow"))


@app.command(epilog="Example: srifty allreduce forget nccl.log --yes")
def forget(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="An import: its name, or its id from list --files."),
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="Only samples of this instance type.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only samples measured before (UTC).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All samples.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove samples from the store: those that all of the conditions hold for."""
    conditions = [value for value in (file, instance_type, before) if value is not None]
    if bool(conditions) == everything:
        raise InputError(
            "say what to forget: FILE, --instance-type, --before (all that are given must hold), "
            "or --all alone"
        )
    path = db or store_path()
    with SampleStore.open(path, create=False) as store:
        moment = _before(before)
        doomed = store.forget(file=file, instance_type=instance_type, before=moment, dry_run=True)
        agreed = doomed.samples > 0 and (yes or _agreed(doomed, path))
        done = Forgotten(0, (), doomed.undated)
        if agreed:
            done = store.forget(file=file, instance_type=instance_type, before=moment)
    if as_json:
        typer.echo(dump({"rows": done.samples, "files": list(done.files), "store": str(path)}))
    if doomed.samples == 0:
        typer.echo("No sample meets that; nothing was removed.", err=True)
    else:
        typer.echo(f"Removed {_count(done)}." if agreed else "Nothing was removed.", err=True)
    if doomed.undated:
        typer.echo(f"{doomed.undated:,} samples have no date and were not considered.", err=True)


@app.command(epilog="Example: srifty allreduce export -o samples.csv")
def export(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.csv", help="Where to write it; else to the terminal."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Write all samples as a CSV file, which import reads again."""
    if as_json and output is None:
        raise InputError("needs -o FILE.csv: the samples themselves are CSV", "--json")
    path = db or store_path()
    with SampleStore.open(path, create=False) as store:
        samples = store.samples()
    if not samples:
        raise InputError("holds no samples; there is nothing to export", str(path))
    text = io.StringIO(newline="")
    rows = write_samples(samples, text)
    if output is None:
        sys.stdout.write(text.getvalue())
        return
    if output.exists() and path.exists() and output.samefile(path):
        raise InputError("is the store itself; name another file", str(output))
    try:
        with output.open("w" if force else "x", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
    except FileExistsError:
        raise InputError("exists already; give --force to replace it", str(output)) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(output)) from None
    if as_json:
        typer.echo(dump({"rows": rows, "file": str(output), "store": str(path)}))
    typer.echo(f"Wrote {rows:,} samples to {output}.", err=True)


def _before(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_measured_at(text)
    except InputError as error:
        message = error.problems[0].message.removeprefix("measured_at ")
        raise InputError(message, "--before") from None


def _agreed(doomed: Forgotten, path: Path) -> bool:
    """Returns whether the user says yes.

    Raises:
        InputError: nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise InputError(f"would remove {_count(doomed)}; give --yes to do so", str(path))
    console = Console(stderr=True, highlight=False)
    try:
        answer = console.input(f"Remove {_count(doomed)} from {path}? [y/N] ", markup=False)
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _count(what: Forgotten) -> str:
    samples = f"{what.samples:,} sample{'' if what.samples == 1 else 's'}"
    return f"{samples}, all there is of {', '.join(what.files)}" if what.files else samples


def _curve_document(curve: StoredCurve) -> dict[str, Any]:
    return {
        **curve.key._asdict(),
        "world_sizes": list(curve.world_sizes),
        "most_vms": curve.most_vms,
        "least_bytes": curve.least_bytes,
        "most_bytes": curve.most_bytes,
        "rows": curve.rows,
        "allocations": curve.allocations,
        "newest": curve.newest.isoformat() if curve.newest else None,
    }


def _file_document(file: ImportedFile) -> dict[str, Any]:
    return asdict(file) | {"imported_at": file.imported_at.isoformat()}


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in headings:
        right = heading in ("samples", "allocations", "kept")
        table.add_column(heading, justify="right" if right else "left")
    return table


def _curve_table(curves: Sequence[StoredCurve]) -> Table:
    table = _table(
        "type", "transport", "library", "settings", "collective", "GPUs", "sizes", "samples",
        "allocations", "newest",
    )  # fmt: skip
    for curve in curves:
        key = curve.key
        table.add_row(
            Text(key.instance_type),
            Text(key.transport or "?"),
            Text(key.library_version or "?"),
            Text(key.config),
            key.collective.value,
            ", ".join(map(str, curve.world_sizes)),
            f"{format_bytes(curve.least_bytes)} to {format_bytes(curve.most_bytes)}",
            f"{curve.rows:,}",
            f"{curve.allocations:,}",
            f"{curve.newest:%Y-%m-%d}" if curve.newest else "undated",
        )
    return table


def _file_table(files: Sequence[ImportedFile]) -> Table:
    table = _table("id", "file", "imported", "samples", "kept", "answers")
    for file in files:
        answers = ", ".join(f"{name}={value}" for name, value in file.answers.items())
        table.add_row(
            file.id,
            Text(file.name),
            f"{file.imported_at:%Y-%m-%d %H:%M}",
            f"{file.rows:,}",
            f"{file.rows_held:,}",
            Text(answers),
        )
    return table
