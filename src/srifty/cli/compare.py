"""`srifty compare`: every method and baseline on one job, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from srifty.baselines import Choice, Rivals
from srifty.catalog import builtin_gpus
from srifty.cli._json import config_document, dump, forecast_document
from srifty.cli._options import (
    AsJson,
    Batches,
    Changes,
    Confidence,
    JobPath,
    Minimize,
    adjusted,
)
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.cli._solver_output import solver_output_to_stderr
from srifty.cli._workbench import Workbench, open_job
from srifty.core.forecast import JobForecast
from srifty.core.job import BatchRule, Job, Objective
from srifty.core.notation import format_config
from srifty.units import format_duration, format_odds, format_usd

EXIT_NO_PLAN = 3

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: srifty compare job.yaml --set deadline=6h --minimize cost")
def compare(
    job_path: JobPath,
    changes: Changes = None,
    minimize: Minimize = None,
    confidence: Confidence = None,
    batches: Batches = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the random first probes of Bayesian optimisation.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what every method and baseline chooses, and what our simulator says of each choice.

    Beside our plan: the anchored scheme of Luo et al. 2022, our search with the forecasts of APM
    and Paleo, Bayesian optimisation that probes our simulator itself, two greedy rules, and the
    cheapest cluster of one instance type. Exits with 3 where we have no plan.
    """
    bench, job, choices = _lined_up(
        job_path,
        changes or (),
        lambda job: adjusted(job, minimize, confidence, batches),
        seed=seed,
    )
    if as_json:
        typer.echo(dump(_document(bench, job, choices)))
    else:
        _show(job, choices)
    if choices[0].config is None:
        raise typer.Exit(EXIT_NO_PLAN)


def compared(
    job_path: Path,
    changes: Sequence[str],
    *,
    minimize: Objective,
    confidence: float,
    batches: BatchRule,
    accumulate: bool,
) -> dict[str, Any]:
    """Returns what `--json` says of a job that was planned with these settings."""
    bench, job, choices = _lined_up(
        job_path,
        changes,
        lambda job: replace(adjusted(job, minimize, confidence, batches), accumulate=accumulate),
    )
    return _document(bench, job, choices)


def _lined_up(
    path: Path, changes: Sequence[str], settled: Callable[[Job], Job], seed: int = 0
) -> tuple[Workbench, Job, tuple[Choice, ...]]:
    """Returns the workbench of a job file, the job as it is settled, and all choices for it."""
    bench = open_job(path, changes)
    job = settled(bench.job)
    rivals = Rivals(
        job,
        bench.catalog.offers,
        bench.simulator,
        bench.batch_ranges,
        builtin_gpus(),
        allow_cross_zone=bench.file.allow_cross_zone,
        prefer=bench.file.prefer,
        seed=seed,
    )
    with SearchProgress("Comparing methods") as progress, solver_output_to_stderr():
        return bench, job, rivals.line_up(progress)


def _document(bench: Workbench, job: Job, choices: Sequence[Choice]) -> dict[str, Any]:
    """Returns all choices; `over_best` is a fraction of our simulator's best within the limits."""
    offers = [group.offer for c in choices if c.config is not None for group in c.config.groups]
    assumptions = bench.simulator.assumptions(job, offers or bench.catalog.offers)
    return {
        "format": "srifty-compare/1",
        "job": job.name,
        "minimize": str(job.objective),
        "deadline_s": job.limits.deadline_s,
        "budget_usd": job.limits.budget_usd,
        "confidence": job.limits.confidence,
        "methods": [
            {
                "method": choice.method,
                "about": choice.about,
                "choice": None if choice.config is None else config_document(choice.config),
                "own": None if choice.own is None else forecast_document(choice.own),
                "simulated": None
                if choice.simulated is None
                else forecast_document(choice.simulated),
                "meets_limits": choice.meets_limits,
                "over_best": over_best(choice, choices, job.objective),
                "reason": choice.reason or None,
                "seconds": choice.seconds,
            }
            for choice in choices
        ],
        "assumptions": [*assumptions, *bench.notes],
    }


def over_best(choice: Choice, choices: Sequence[Choice], objective: Objective) -> float | None:
    """Returns how far a choice's objective lies above the best one within the limits.

    A fraction; None without a choice, or where none keeps the limits. Below 0 only for a choice
    that breaks a limit.
    """
    values = [c.value(objective) for c in choices if c.meets_limits]
    best = min((value for value in values if value is not None), default=None)
    value = choice.value(objective)
    if best is None or value is None or best <= 0:
        return None
    return value / best - 1


def _show(job: Job, choices: Sequence[Choice]) -> None:
    console = console_for_results()
    limited = job.limits.deadline_s is not None or job.limits.budget_usd is not None
    goal = "the shortest time" if job.objective is Objective.TIME else "the lowest cost"
    console.print(
        Text(f"{job.name}: {job.iterations:,} iterations, {goal}{_limits(job)}", style="bold")
    )
    table = Table(box=None, padding=(0, 2), header_style="dim")
    headings = ("method", "its own forecast", "our simulator", "over the best", "limits")
    for heading in headings if limited else headings[:-1]:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    table.add_column("choice", overflow="fold")
    for choice in choices:
        excess = over_best(choice, choices, job.objective)
        cells = [
            Text(choice.method),
            Text(_words(choice.own), style="dim"),
            Text(_words(choice.simulated)),
            Text("" if excess is None else f"{excess:+.1%}"),
        ]
        if limited:
            cells.append(_verdict(choice))
        shown = Text(choice.reason, style="yellow")
        if choice.config is not None:
            shown = Text(format_config(choice.config))
        table.add_row(*cells, shown)
    console.print(table)
    console.print()
    for choice in choices:
        console.print(Text(f"  - {choice.method}: {choice.about}", style="dim"))
    rests = (
        "What our simulator takes for granted stands below each srifty plan, and in --json here."
    )
    console.print(Text(rests, style="dim"))


def _limits(job: Job) -> str:
    parts: list[str] = []
    if job.limits.deadline_s is not None:
        parts.append(f"within {format_duration(job.limits.deadline_s)}")
    if job.limits.budget_usd is not None:
        parts.append(f"for at most {format_usd(job.limits.budget_usd)}")
    if not parts:
        return ""
    return f", {' and '.join(parts)} at {job.limits.confidence:.0%} confidence"


def _words(forecast: JobForecast | None) -> str:
    if forecast is None:
        return "none"
    return f"{format_duration(forecast.time_s.mean)}, {format_usd(forecast.cost_usd.mean)}"


def _verdict(choice: Choice) -> Text:
    if choice.simulated is None:
        return Text("")
    chance = format_odds(choice.simulated.success_probability)
    if choice.meets_limits:
        return Text(f"kept ({chance})", style="green")
    return Text(f"broken ({chance})", style="red")
