"""`srifty simulate`: forecast one cluster configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from srifty.catalog import interruption_notes, mixed_host_warnings
from srifty.cli._json import config_document, dump, forecast_document
from srifty.cli._options import AsJson, Changes, JobPath
from srifty.cli._predictors import ChosenPredictor, PredictorName, predictor_of
from srifty.cli._show import console_for_results, promise, show_forecast, show_groups
from srifty.cli._workbench import Workbench, open_job
from srifty.core.cluster import ClusterConfig
from srifty.core.notation import parse_config
from srifty.errors import InputError, NotationError, Problem
from srifty.planner import places_of
from srifty.simulator import ConfigTable, chrome_trace, forecast_jobs, timeline_of

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


@app.command(
    epilog='Example: srifty simulate job.yaml --config "1p3.8xlarge@512 + 8g3.8xlarge (spot)@64"'
)
def simulate(
    job_path: JobPath,
    config: Annotated[
        str,
        typer.Option(
            "--config", metavar="CONFIG", help="<num><instance>@<samples per VM>, joined by ' + '."
        ),
    ],
    changes: Changes = None,
    predictor: ChosenPredictor = PredictorName.SRIFTY,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="OUT.json", help="Write a Chrome trace; open it in ui.perfetto.dev."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast one cluster configuration."""
    if trace is not None and predictor is not PredictorName.SRIFTY:
        raise InputError(
            f"shows what our simulator does, and {predictor} knows no events; leave out one of the "
            "two",
            "--trace",
        )
    bench = open_job(job_path, changes or ())
    chosen_predictor = predictor_of(bench, predictor)
    chosen = _parse(bench, config)
    _check(bench, chosen)
    table = ConfigTable.from_configs([chosen])
    iterations = chosen_predictor.predict(bench.job, table)
    forecast = forecast_jobs(bench.job, table, iterations).forecast(0, iterations.row(0))
    if trace is not None:
        timeline = timeline_of(bench.simulator, bench.job, chosen)
        try:
            trace.write_text(json.dumps(chrome_trace(timeline)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", str(trace)) from None
    used = [group.offer for group in chosen.groups]
    assumptions = chosen_predictor.assumptions(bench.job, used) + bench.notes
    assumptions += interruption_notes(used)
    warnings = (
        mixed_host_warnings(used)
        + bench.catalog.left_out
        + chosen_predictor.warnings(bench.job, chosen)
    )
    if as_json:
        document = config_document(chosen) | forecast_document(forecast)
        notes = {"warnings": list(warnings), "assumptions": list(assumptions)}
        typer.echo(dump(document | notes))
        return
    console = console_for_results()
    console.print(Text(f"{bench.job.name}: {bench.job.iterations:,} iterations on", style="bold"))
    show_groups(console, chosen)
    console.print(Text(promise(bench.job, chosen, forecast), style="bold"))
    show_forecast(console, chosen, forecast)
    console.print()
    for sentence in (*warnings, *_over_quota(chosen)):
        console.print(Text(f"  - {sentence}", style="yellow"))
    for sentence in assumptions:
        console.print(Text(f"  - {sentence}", style="dim"))


def _parse(bench: Workbench, text: str) -> ClusterConfig:
    """Returns the configuration in the cheapest place that offers all of it, in one zone if any."""
    offers = bench.catalog.offers
    allow = bench.file.allow_cross_zone
    found: list[ClusterConfig] = []
    for place in places_of(offers, allow_cross_zone=allow):
        try:
            found.append(parse_config(text, place))
        except NotationError:
            continue
    if found:
        return min(found, key=lambda chosen: (_zones(chosen), chosen.usd_per_hour))
    try:
        parse_config(text, offers)
    except NotationError as error:
        raise InputError(error.problems, "--config") from None
    raise InputError(
        "no single zone offers all of it; set offers.allow_cross_zone: true to span zones",
        "--config",
    )


def _zones(config: ClusterConfig) -> int:
    return len({group.offer.location.zone for group in config.groups} - {None})


def _over_quota(config: ClusterConfig) -> list[str]:
    """Returns which quotas a configuration exceeds: it is simulated all the same."""
    sentences: list[str] = []
    for offer in dict.fromkeys(group.offer for group in config.groups):
        count = sum(group.count for group in config.groups if group.offer == offer)
        if count > offer.quota:
            sentences.append(f"{count} x {offer.label} exceed the quota of {offer.quota}.")
    return sentences


def _check(bench: Workbench, config: ClusterConfig) -> None:
    """Raises `InputError` where the configuration cannot serve the job."""
    problems: list[Problem] = []
    if config.samples != bench.job.global_batch:
        problems.append(
            Problem(
                "",
                f"serves {config.samples:,} samples per iteration, but the global batch is "
                f"{bench.job.global_batch:,}; the samples of all VMs must sum to it",
            )
        )
    for group in config.groups:
        gpu = group.offer.instance_type.gpu
        limits = bench.batch_ranges.get(gpu)
        if limits is None:
            problems.append(Problem(group.offer.label, f"the job has no profile for {gpu}"))
        elif group.micro_batch > limits.most:
            passes = -(-group.local_batches[0] // limits.most)
            problems.append(
                Problem(
                    group.offer.label,
                    f"{group.micro_batch} samples per pass exceed the {limits.most} that fit on "
                    f"{gpu}; accumulate over {passes} passes: @{group.samples_per_vm}x{passes}",
                )
            )
    if problems:
        raise InputError(problems, "--config")
