"""`srifty probe`: measure allreduce times among the processes at hand, under torchrun."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from srifty.allreduce.samples import write_samples
from srifty.allreduce.store import UNNAMED
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._probe_keep import keep, require_place
from srifty.cli._probe_show import probe_document, show_findings
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.cli.main import EXIT_BAD_INPUT, EXIT_UNFINISHED
from srifty.cli.start import EXIT_INTERRUPTED
from srifty.errors import InputError, ProbeFailed
from srifty.probing.findings import Findings, Place
from srifty.probing.grid import (
    DEFAULT_SIZES,
    ElementType,
    Grid,
    make_cells,
    parse_concurrent,
    parse_sizes,
)
from srifty.probing.group import Backend, Group, import_torch
from srifty.probing.launch import launch_from, library_settings
from srifty.probing.nccl_tests import nccl_tests_commands
from srifty.probing.sweep import probe as measure
from srifty.probing.watch import ProbeStopped, Watch, run_watched

_MOST_S = 86400.0

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@dataclass(frozen=True)
class _Where:
    """What only the user knows of the VMs."""

    instance_type: str
    cloud: str
    region: str
    zone: str
    placement_group: bool | None
    transport: str
    config: str | None


@app.command(
    epilog="Example: torchrun --nproc-per-node 4 -m srifty probe --cloud aws --instance-type "
    "g4dn.12xlarge --seconds 60"
)
def probe(
    sizes: Annotated[
        str,
        typer.Option(help="Bytes that each rank contributes: 4B..512MiB by doubling, or a list."),
    ] = DEFAULT_SIZES,
    concurrent: Annotated[
        str, typer.Option(help="Allreduces issued at once: 4, 1..4, or a list.")
    ] = "1",
    seconds: Annotated[
        float, typer.Option(help="Time for the whole grid; the largest sizes are dropped first.")
    ] = 120.0,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Samples of each size.")] = 5,
    warmup: Annotated[
        int, typer.Option(min=0, max=1000, help="Untimed operations of each size before.")
    ] = 2,
    long: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Then repeat one large size for so long, to see whether the bandwidth lasts.",
        ),
    ] = 0.0,
    backend: Annotated[
        Backend, typer.Option(help="auto: NCCL where every process has a GPU, else gloo.")
    ] = Backend.AUTO,
    dtype: Annotated[
        ElementType, typer.Option(help="Element type of the messages.")
    ] = ElementType.FLOAT32,
    instance_type: Annotated[
        str, typer.Option(help="The VM shape; without it no plan uses the samples.")
    ] = "",
    cloud: Annotated[str, typer.Option(help="The cloud: aws, gcp, ...")] = "",
    region: Annotated[str, typer.Option(help="The region, such as us-east-1.")] = "",
    zone: Annotated[str, typer.Option(help="The zone in it.")] = "",
    placement_group: Annotated[
        bool | None,
        typer.Option("--placement-group/--no-placement-group", help="Whether the VMs share one."),
    ] = None,
    transport: Annotated[
        str, typer.Option(help="tcp-socket, efa, nvlink, ...; tcp-socket for gloo if left out.")
    ] = "",
    config: Annotated[
        str | None,
        typer.Option(
            help="Settings that make it an environment of its own; the NCCL_* or GLOO_* variables "
            "of rank 0 if left out."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.csv", help="Write a CSV file.")
    ] = None,
    db: StoreFile = None,
    nccl_tests: Annotated[
        bool,
        typer.Option(
            "--nccl-tests", help="Print how nccl-tests would measure the same, and measure nothing."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how long allreduces take among the processes that torchrun started.

    All sizes are measured, then all again, and so on; each repeat is a sample of its own.
    """
    rank = os.environ.get("RANK", "0")
    try:
        grid = Grid(
            cells=make_cells(parse_sizes(sizes), parse_concurrent(concurrent), dtype),
            element=dtype,
            repeats=repeats,
            warmup=warmup,
            budget_s=_seconds("--seconds", seconds, least=0.01),
            long_s=_seconds("--long", long, least=0.0),
        )
        if nccl_tests:
            lines = nccl_tests_commands(grid)
            typer.echo(dump({"shell": list(lines)}) if as_json else "\n".join(lines))
            return
        where = _Where(
            instance_type=_text("--instance-type", instance_type),
            cloud=_text("--cloud", cloud),
            region=_text("--region", region),
            zone=_text("--zone", zone),
            placement_group=placement_group,
            transport=_text("--transport", transport),
            config=None if config is None else _text("--config", config),
        )
        launch = launch_from(os.environ)
        if launch.rank == 0:
            require_place(output, db)
        torch = import_torch()
    except InputError:
        if rank != "0":  # rank 0 says it for all
            raise typer.Exit(EXIT_BAD_INPUT) from None
        raise
    findings, watch = Findings(), Watch()
    progress = SearchProgress("Measuring", redraws=False)
    ended, code = "done", 0

    def report(done: int, total: int) -> None:
        if launch.rank == 0:
            progress(done, total)

    def task() -> None:
        def place(group: Group) -> Place:
            return _place(where, group, grid.element)

        measure(torch, launch, backend, grid, place, findings, watch, report)

    # From here to the end signals only ask: torchrun sends more of them while rank 0 still saves.
    with _asked_by_signals(watch) as received:
        try:
            with progress:
                run_watched(task, watch)
        except ProbeStopped:
            ended, code = _why_stopped(received)
        except ProbeFailed as error:
            ended, code = str(error), EXIT_UNFINISHED
        except InputError as error:
            ended, code = str(error), EXIT_BAD_INPUT
        if launch.rank == 0:
            # Nothing measured is lost: what cannot be put away is printed.
            code = max(code, _finish(findings, output, db, ended, as_json=as_json))
        elif code == EXIT_UNFINISHED:
            typer.echo(f"error: rank {launch.rank}: {ended}", err=True)
        if code:
            _leave(code)


def _seconds(option: str, value: float, least: float) -> float:
    if not least <= value <= _MOST_S:  # NaN too
        raise InputError(f"must be {least:g} to {_MOST_S:,.0f} seconds, not {value:g}", option)
    return value


def _text(option: str, text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise InputError(
            f"must be one line of plain text without blanks around, not {text!r}", option
        )
    return text


def _place(where: _Where, group: Group, element: ElementType) -> Place:
    launch = group.launch
    config = where.config
    if config is None:
        config = library_settings(os.environ, group.backend.value)
    gpu_words = group.gpu.replace(" ", "-")
    return Place(
        # The same label that an imported log without an instance type gets.
        instance_type=where.instance_type or f"{UNNAMED}{launch.local_world_size}x{gpu_words}",
        cloud=where.cloud,
        region=where.region,
        zone=where.zone,
        placement_group=where.placement_group,
        transport=where.transport or ("tcp-socket" if group.backend is Backend.GLOO else ""),
        config=config,
        vms=launch.vms,
        world_size=launch.world_size,
        gpu=group.gpu,
        library_version=group.library_version,
        source=f"srifty probe, torch {group.torch_version}",
        allocation=group.allocation,
        element=element,
    )


@contextmanager
def _asked_by_signals(watch: Watch) -> Generator[list[int]]:
    """Turns SIGINT and SIGTERM into the wish to stop; yields the list of those that came."""
    received: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        watch.ask_to_stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _why_stopped(received: list[int]) -> tuple[str, int]:
    """Returns why, in words, and the exit code."""
    if received and received[0] == signal.SIGTERM:
        return (
            "stopped by SIGTERM, which torchrun sends when another rank has died",
            EXIT_UNFINISHED,
        )
    return "stopped by Ctrl-C", EXIT_INTERRUPTED


def _finish(
    findings: Findings, output: Path | None, db: Path | None, ended: str, *, as_json: bool
) -> int:
    """Puts away and shows what there is; returns the exit code that this calls for."""
    samples = tuple(findings.samples)  # a measuring thread that was left behind may yet add one
    stored, lost = "", ""
    try:
        stored = keep(samples, output, db) if samples else ""
    except InputError as error:
        lost = str(error)
    if ended != "done":
        typer.echo(f"error: {ended}", err=True)
    for note in findings.notes:
        typer.echo(f"note: {note}", err=True)
    if samples and not samples[0].transport:
        typer.echo("note: the transport is unknown; say it with --transport.", err=True)
    if samples and samples[0].instance_type.startswith(UNNAMED):
        typer.echo(
            "note: without --instance-type no plan uses these samples; they are kept as "
            f"{samples[0].instance_type}.",
            err=True,
        )
    if as_json:
        typer.echo(dump(probe_document(findings, stored, ended)))
    else:
        show_findings(console_for_results(), findings)
    if lost:
        typer.echo(f"error: {lost}\nThe samples, for srifty allreduce import:", err=True)
        write_samples(samples, sys.stderr)
        return EXIT_BAD_INPUT
    where = f"{len(samples)} samples are kept in {stored}" if samples else "no samples are kept"
    typer.echo(f"{where}.", err=True)
    return 0


def _leave(code: int) -> NoReturn:
    """Ends the process at once: its peers, or a thread inside the library, may never answer."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
