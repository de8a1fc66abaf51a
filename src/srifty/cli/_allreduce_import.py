"""`srifty allreduce import`: measurements from files into the store."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from srifty.allreduce.intake import KIND, Answers, Intake, grouped, take_in
from srifty.allreduce.provenance import mixture_warnings
from srifty.allreduce.records import Added
from srifty.allreduce.samples import parse_measured_at
from srifty.allreduce.store import SampleStore, store_path
from srifty.catalog.builtin import builtin_instance_types
from srifty.catalog.store import own_catalog_path, read_types, types_path
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.core.allreduce import Collective
from srifty.errors import InputError, Problem
from srifty.inputs import read_bytes

_MOST_REASONS = 5
_ONE_DAY = timedelta(days=1)
_KEYS = (
    "file", "rows", "new", "dropped", "world_size", "world_size_from", "world_size_range", "nodes",
    "gpus_per_node", "nccl_version", "transport", "gpu", "collective", "instance_types", "complete",
    "warnings", "already_imported",
)  # fmt: skip


def import_measurements(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="nccl-tests logs or CSV files.")
    ],
    instance_type: Annotated[
        str, typer.Option(help="What it ran on, such as p4d.24xlarge; no log says it.")
    ] = "",
    cloud: Annotated[str, typer.Option(help="The cloud: aws, gcp, ...")] = "",
    region: Annotated[str, typer.Option(help="The region, such as us-east-1.")] = "",
    zone: Annotated[str, typer.Option(help="The zone, such as use1-az1.")] = "",
    world_size: Annotated[
        int | None, typer.Option(min=2, help="GPUs that took part, where a log does not show it.")
    ] = None,
    vms: Annotated[
        int | None, typer.Option(min=1, help="VMs that took part, where a log does not show it.")
    ] = None,
    transport: Annotated[
        str, typer.Option(help="How the bytes went: efa, tcp-socket, ib, nvlink, ...")
    ] = "",
    config: Annotated[
        str, typer.Option(help="Settings that make it a curve of its own, such as NCCL_ALGO=Ring.")
    ] = "",
    placement_group: Annotated[
        bool | None,
        typer.Option("--placement-group/--no-placement-group", help="Whether the VMs shared one."),
    ] = None,
    measured_at: Annotated[
        str, typer.Option(metavar="WHEN", help="When, as an ISO date or time (UTC).")
    ] = "",
    only: Annotated[
        Collective | None,
        typer.Option("--as", help="Take rows of this collective and refuse all others."),
    ] = None,
    other_reductions: Annotated[
        bool,
        typer.Option("--other-reductions", help="Take products, maxima, ... besides sums."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be imported; store nothing.")
    ] = False,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Import nccl-tests logs of any version, and CSV files.

    Every row is checked; what does not add up is dropped, with its line and the reason. A file is
    stored whole or not at all, and importing it again adds nothing.
    """
    gpus_per_vm, gpu, notes = _known_type(instance_type.strip())
    answers = Answers(
        instance_type=instance_type.strip(),
        cloud=cloud.strip(),
        region=region.strip(),
        zone=zone.strip(),
        world_size=world_size,
        vms=vms,
        transport=transport.strip(),
        config=config.strip(),
        placement_group=placement_group,
        measured_at=_moment(measured_at),
        collective=only,
        other_reductions=other_reductions,
        gpus_per_vm=gpus_per_vm,
        gpu=gpu,
    )
    path = db or store_path()
    documents: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for file in files:
        document, wrong = _import_one(file, answers, path, dry_run=dry_run, silent=as_json)
        documents.append(document)
        problems += wrong
    taken = sum(document["rows"] for document in documents)
    if taken and not dry_run:
        with SampleStore.open(path, create=False) as store:
            notes += mixture_warnings(store.curves())
    if as_json:
        typer.echo(
            dump(
                {
                    "rows": taken,
                    "files": documents,
                    "warnings": notes,
                    "dry_run": dry_run,
                    "store": str(path),
                }
            )
        )
    elif taken and not dry_run:
        typer.echo(f"Stored in {path}.", err=True)
    for note in notes:
        typer.echo(f"mind: {note}", err=True)
    if problems:
        raise InputError(problems)


def _import_one(
    file: Path, answers: Answers, path: Path, *, dry_run: bool, silent: bool
) -> tuple[dict[str, Any], list[Problem]]:
    """Returns what became of a file, and why it gave nothing, if so.

    Raises:
        InputError: the store cannot be used.
    """
    try:
        with SearchProgress(f"Reading {file.name}") as progress:
            intake = take_in(read_bytes(file, KIND), str(file), answers, progress)
        added = _already(path, intake) if dry_run else _store(path, intake)
    except InputError as error:
        if error.source == str(path):
            raise
        wrong = [Problem(error.source or str(file), found.message) for found in error.problems]
        return dict.fromkeys(_KEYS) | {
            "file": str(file), "rows": 0, "new": 0, "dropped": [], "instance_types": [],
            "warnings": [], "already_imported": False, "error": "; ".join(map(str, error.problems)),
        }, wrong  # fmt: skip
    document = _document(intake, added)
    if not intake.samples:
        return document, [Problem(str(file), _nothing(intake))]
    if not silent:
        _show(intake, added, dry_run=dry_run)
    return document, []


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = parse_measured_at(text)
    except InputError as error:
        raise InputError(error.problems, "--measured-at") from None
    if moment > datetime.now(UTC) + _ONE_DAY:
        raise InputError(f"{text} lies in the future", "--measured-at")
    return moment


def _known_type(name: str) -> tuple[int | None, str, list[str]]:
    """Returns the GPUs of a VM of a type, their model, and what to mind where no catalog knows."""
    known = {kind.name: (kind.gpus, kind.gpu) for kind in builtin_instance_types().values()}
    known |= {row.name: (row.gpus, row.gpu) for row in read_types(types_path(own_catalog_path()))}
    if not name:
        return None, "", []
    if name in known:
        gpus, gpu = known[name]
        return gpus, gpu, []
    near = difflib.get_close_matches(name, known, n=3)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    note = (
        f"{name} is in no catalog{hint}: only a job that declares it under offers.types will use "
        "these samples."
    )
    return None, "", [note]


def _store(path: Path, intake: Intake) -> Added:
    if not intake.samples:
        return Added(0, 0)
    with SampleStore.open(path) as store:
        return store.add(intake.samples, file=intake.file)


def _already(path: Path, intake: Intake) -> Added:
    """Returns what adding would come to, as far as it shows without doing it."""
    if not path.exists():
        return Added(len(intake.samples), 0)
    with SampleStore.open(path, create=False) as store:
        known = any(intake.file.key.startswith(file.id) for file in store.files())
    rows = len(intake.samples)
    return Added(0, rows, known=True) if known else Added(rows, 0)


def _nothing(intake: Intake) -> str:
    reasons = grouped(intake.dropped)
    if not reasons:
        reasons = [
            "no line of it reads like a row of nccl-tests, and the first one is no header of CSV "
            "(instance_type,nodes,world_size,size_bytes,time_us)"
        ]
    hidden = len(reasons) - _MOST_REASONS
    more = f"; and {hidden} more reasons" if hidden > 0 else ""
    return f"gives no usable row: {'; '.join(reasons[:_MOST_REASONS])}{more}"


def _document(intake: Intake, added: Added) -> dict[str, Any]:
    values = (
        intake.file.name,
        len(intake.samples),
        added.new,
        [{"line": row.line, "reason": row.reason} for row in intake.dropped],
        intake.world_size,
        intake.world_size_from or None,
        intake.world_size_range,
        intake.vms,
        intake.gpus_per_vm,
        intake.library_version or None,
        intake.transport or None,
        intake.gpu or None,
        ", ".join(intake.collectives) or None,
        sorted({sample.instance_type for sample in intake.samples}),
        intake.complete,
        [*intake.warnings, *_store_notes(added)],
        bool(added.already) and not added.new,
    )
    return dict(zip(_KEYS, values, strict=True))


def _store_notes(added: Added) -> list[str]:
    """Returns what the store had of the same content."""
    notes: list[str] = []
    if added.replaced:
        notes.append(
            f"It takes the place of {added.replaced:,} samples of the same file that had no "
            "instance type."
        )
    if added.also:
        notes.append(
            "The same file was imported before with other answers; if these correct them, remove "
            f"the former with: srifty allreduce forget {added.also[-1]}"
        )
    return notes


def _show(intake: Intake, added: Added, *, dry_run: bool) -> None:
    console = console_for_results()
    console.print(Text(f"{intake.file.name}: {_kept(intake, added, dry_run=dry_run)}"))
    console.print(Text(f"  {_inferred(intake)}", style="dim"))
    reasons = grouped(intake.dropped)
    for reason in reasons[:_MOST_REASONS]:
        console.print(Text(f"  not taken: {reason}", style="yellow"))
    if len(reasons) > _MOST_REASONS:
        console.print(
            Text(
                f"  and {len(reasons) - _MOST_REASONS} more reasons; {len(intake.dropped):,} rows "
                "in all were not taken (--json lists each)",
                style="yellow",
            )
        )
    for warning in (*intake.warnings, *_store_notes(added)):
        console.print(Text(f"  mind: {warning}", style="yellow"))


def _kept(intake: Intake, added: Added, *, dry_run: bool) -> str:
    rows = len(intake.samples)
    kinds = _listed(sorted({sample.instance_type for sample in intake.samples}))
    what = f"{rows:,} samples of {' and '.join(intake.collectives)} on {kinds}"
    if added.known and not added.new:
        return f"was imported before; nothing to add ({what})."
    if dry_run:
        return f"would give {what}."
    if not added.new:
        return f"the store has all of its {what}."
    known = f", {added.already:,} of which the store had" if added.already else ""
    return f"kept {what}{known}."


def _inferred(intake: Intake) -> str:
    """Returns what the samples share: how many GPUs, of what, with which library."""
    parts: list[str] = []
    if intake.world_size is not None:
        origin = f" ({intake.world_size_from})" if intake.world_size_from else ""
        parts.append(f"{intake.world_size} GPUs{origin}")
    else:
        worlds = sorted({sample.world_size for sample in intake.samples})
        parts.append(f"worlds of {_listed([str(world) for world in worlds])} GPUs")
    if intake.vms is not None:
        each = f" x {intake.gpus_per_vm}" if intake.gpus_per_vm else ""
        parts.append(f"{intake.vms} VM{'s' if intake.vms > 1 else ''}{each} {intake.gpu}".rstrip())
    elif intake.gpu:
        parts.append(intake.gpu)
    if intake.library_version:
        parts.append(f"library {intake.library_version}")
    if intake.transport:
        parts.append(f"transport {intake.transport}")
    if intake.complete is False:
        parts.append("the log ends before its summary")
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
