"""`srifty plan`: find the VMs to rent for a job, or say why there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from srifty.catalog import (
    interruption_notes,
    mixed_host_warnings,
    network_notes,
    price_notes,
    spot_cost_range_usd,
)
from srifty.cli._explanations import explanations_document, show_explanations
from srifty.cli._json import dump, plan_result_document, settings_document
from srifty.cli._options import (
    AsJson,
    Batches,
    Changes,
    Confidence,
    JobPath,
    Minimize,
    adjusted,
)
from srifty.cli._plan_figures import asked_document, figures_document
from srifty.cli._predictors import ChosenPredictor, PredictorName, predictor_of
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results, show_result
from srifty.cli._solver_output import solver_output_to_stderr
from srifty.cli._workbench import Workbench, open_job
from srifty.core.explanation import Explanation
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.core.plan import PlanResult
from srifty.errors import InputError
from srifty.planner import TIME_LIMIT_S, Method, explain, plan
from srifty.simulator import Predictor
from srifty.units import format_usd

EXIT_NO_PLAN = 3

Progress = Callable[[int, int], None]

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(
    epilog="Example: srifty plan job.yaml --set deadline=6h --minimize time --confidence 0.95"
)
def plan_command(
    job_path: JobPath,
    changes: Changes = None,
    minimize: Minimize = None,
    confidence: Confidence = None,
    batches: Batches = None,
    accumulate: Annotated[
        bool | None,
        typer.Option(
            "--accumulate/--no-accumulate",
            help="Let plans with several passes per iteration compete; else only as a last resort.",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="How to search: auto; exhaustive, which refuses spaces that are too large; "
            "anchored, the scheme of Luo et al. 2022, for comparison."
        ),
    ] = Method.AUTO,
    predictor: ChosenPredictor = PredictorName.SRIFTY,
    time_limit: Annotated[
        float,
        typer.Option(
            help="Seconds after which the search of a large space ends with the best plan so far "
            "and a proof of how far from the best there is it can be.",
        ),
    ] = TIME_LIMIT_S,
    top: Annotated[int, typer.Option(min=1, help="How many plans to rank.")] = 5,
    explained: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Plan again with limits, prices and forecasts a little different: what binds, "
            "what more would buy, why the runner-up lost, what would change the choice.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PLAN.json", help="Write the result to a file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the VMs to rent for a job, or say why there are none.

    Exits with 3 where no plan meets the limits.
    """
    if not time_limit > 0:  # NaN is no limit either
        raise InputError("must be a positive number of seconds", "--time-limit")
    bench = open_job(job_path, changes or ())
    job = adjusted(bench.job, minimize, confidence, batches)
    job = replace(job, accumulate=job.accumulate if accumulate is None else accumulate)
    chosen = predictor_of(bench, predictor)

    def planned(
        job: Job,
        offers: Sequence[Offer],
        predictor: Predictor,
        top: int = 1,
        progress: Progress | None = None,
    ) -> PlanResult:
        with solver_output_to_stderr():
            return plan(
                job,
                offers,
                predictor,
                bench.batch_ranges,
                allow_cross_zone=bench.file.allow_cross_zone,
                prefer=bench.file.prefer,
                top=top,
                method=method,
                progress=progress,
                time_limit_s=time_limit,
            )

    with SearchProgress("Looking at configurations") as progress:
        result = planned(job, bench.catalog.offers, chosen, max(top, 2), progress)
    explanations: tuple[Explanation, ...] = ()
    if explained:
        with SearchProgress("Planning again to explain") as progress:
            explanations = explain(job, bench.catalog.offers, chosen, result, planned, progress)
    result = _with_catalog_notes(bench, replace(result, ranking=result.ranking[:top]))
    cost_range = _cost_range(bench, result)
    document = plan_result_document(result) | {
        "cost_range_usd": cost_range,
        "job": job.name,
        "run": settings_document(bench.file.settings),
        "request": asked_document(job_path, list(changes or ()), job),
        **figures_document(bench, job, result, chosen),
    }
    if explained:
        document["explanations"] = explanations_document(explanations)
    text = dump(document)
    if output is not None:
        try:
            output.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", str(output)) from None
    if as_json:
        typer.echo(text)
    else:
        console = console_for_results()
        show_result(console, job, result)
        show_explanations(console, explanations)
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
        notes += interruption_notes(used)
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
