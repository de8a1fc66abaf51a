"""`srifty plan`: find the VMs to rent for a job, or say why there are none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from srifty.catalog import mixed_host_warnings, network_notes, price_notes, spot_cost_range_usd
from srifty.cli._json import dump, plan_result_document, settings_document
from srifty.cli._options import AsJson, Changes, JobPath
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results, show_result
from srifty.cli._workbench import Workbench, open_job
from srifty.core.job import BatchRule, Objective
from srifty.core.plan import PlanResult
from srifty.errors import InputError
from srifty.planner import plan
from srifty.units import format_usd

EXIT_NO_PLAN = 3

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


class Method(StrEnum):
    """How the search is done."""

    AUTO = "auto"
    EXHAUSTIVE = "exhaustive"


class PredictorName(StrEnum):
    """What forecasts iterations."""

    SRIFTY = "srifty"


@app.command(
    epilog="Example: srifty plan job.yaml --set deadline=6h --minimize time --confidence 0.95"
)
def plan_command(
    job_path: JobPath,
    changes: Changes = None,
    minimize: Annotated[
        Objective | None, typer.Option(help="What to minimise; replaces the job file's.")
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Chance that deadline and budget both hold; 0.5 judges by the mean."),
    ] = None,
    batches: Annotated[
        BatchRule | None, typer.Option(help="Which local batches a plan may use.")
    ] = None,
    accumulate: Annotated[
        bool | None,
        typer.Option(
            "--accumulate/--no-accumulate",
            help="Let plans with several passes per iteration compete; else only as a last resort.",
        ),
    ] = None,
    method: Annotated[Method, typer.Option(help="How to search.")] = Method.AUTO,
    predictor: Annotated[
        PredictorName, typer.Option(help="What forecasts iterations.")
    ] = PredictorName.SRIFTY,
    top: Annotated[int, typer.Option(min=1, help="How many plans to rank.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PLAN.json", help="Write the result to a file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the VMs to rent for a job, or say why there are none.

    Exits with 3 where no plan meets the limits.
    """
    del method, predictor  # one of each so far; the options are the contract's
    bench = open_job(job_path, changes or ())
    job = bench.job
    if confidence is not None:
        try:
            job = replace(job, limits=replace(job.limits, confidence=confidence))
        except InputError as error:
            raise InputError(error.problems, "--confidence") from None
    job = replace(
        job,
        objective=minimize or job.objective,
        batch_rule=batches or job.batch_rule,
        accumulate=job.accumulate if accumulate is None else accumulate,
    )
    with SearchProgress("Looking at configurations") as progress:
        result = plan(
            job,
            bench.catalog.offers,
            bench.simulator,
            bench.batch_ranges,
            allow_cross_zone=bench.file.allow_cross_zone,
            prefer=bench.file.prefer,
            top=top,
            progress=progress,
        )
    result = _with_catalog_notes(bench, result)
    cost_range = _cost_range(bench, result)
    document = dump(
        plan_result_document(result)
        | {
            "cost_range_usd": cost_range,
            "job": job.name,
            "run": settings_document(bench.file.settings),
        }
    )
    if output is not None:
        try:
            output.write_text(document + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", str(output)) from None
    if as_json:
        typer.echo(document)
    else:
        show_result(console_for_results(), job, result)
    if not result.verdict.is_feasible:
        raise typer.Exit(EXIT_NO_PLAN)


def _cost_range(bench: Workbench, result: PlanResult) -> list[float] | None:
    """Returns the expected bill now and were spot to rise to on-demand; None if it cannot."""
    best = result.plan or result.nearest
    found = spot_cost_range_usd(best, bench.catalog.on_demand_usd) if best is not None else None
    return list(found) if found is not None else None


def _with_catalog_notes(bench: Workbench, result: PlanResult) -> PlanResult:
    """Returns the result with what is to be said of its offers: hosts, network, prices."""
    best = result.plan or result.nearest
    notes = list(bench.notes)
    warnings = [*result.warnings, *bench.catalog.left_out]
    if best is not None:
        used = [group.offer for group in best.config.groups]
        warnings += mixed_host_warnings(used)
        network = bench.file.network
        notes += network_notes(
            used, best.config.vms, efa=network.efa, placement_group=network.placement_group
        )
        for note in price_notes(used, bench.catalog.on_demand_usd, datetime.now(UTC)):
            notes.append(f"Price of {note.line}.")
            warnings += note.warnings
        cost_range = _cost_range(bench, result)
        if cost_range is not None:
            low, high = map(format_usd, cost_range)
            notes.append(
                f"Spot prices may move: {low} in total at the prices shown, {high} were they to "
                "rise to on-demand."
            )
    return replace(result, warnings=tuple(warnings), assumptions=result.assumptions + tuple(notes))
