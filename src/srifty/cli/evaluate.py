"""`srifty evaluate`: measure how well the models predict measurements of yours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from srifty.cli._evaluate_iterations import iterations
from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._show import console_for_results
from srifty.compute.evaluation import CurveScore, evaluate_curve, summarise
from srifty.errors import InputError
from srifty.files import LatencyCurve, read_latency_curves

app = typer.Typer(
    help="Measure how well the models predict measurements of yours.",
    epilog="Example: srifty evaluate compute latencies.csv --probes 4",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


class Errors(StrEnum):
    """Which batch sizes count."""

    HELD_OUT = "held-out"
    ALL = "all"


app.command(
    epilog="Example: srifty evaluate iterations iterations.csv --hold-out nodes --train-max-vms 4"
)(iterations)


@dataclass(frozen=True)
class _Scored:
    curve: LatencyCurve
    score: CurveScore


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction] - typer calls it
    """Measure how well the models predict measurements of yours."""


@app.command(epilog="Example: srifty evaluate compute latencies.csv --probes 4")
def compute(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="workload,gpu,batch_size,latency_s and, where known, forward_s,backward_s.",
        ),
    ],
    probes: Annotated[
        int, typer.Option(min=2, help="Batch sizes that the model may learn from.")
    ] = 4,
    errors: Annotated[
        Errors, typer.Option(help="Count the sizes that were not learned from, or all.")
    ] = Errors.HELD_OUT,
    min_sizes: Annotated[
        int, typer.Option(min=2, help="Leave out curves with fewer batch sizes.")
    ] = 6,
    as_json: AsJson = False,
) -> None:
    """Predict each latency curve from a few of its batch sizes and report the error.

    The probes are the sizes nearest a geometric grid from the smallest to the largest. Beside our
    model stand plain interpolation through the probes and one line through them.
    """
    scored: list[_Scored] = []
    skipped: list[LatencyCurve] = []
    for curve in read_latency_curves(path):
        enough = len(curve.batches) >= min_sizes and (
            errors is Errors.ALL or len(curve.batches) > probes
        )
        if not enough:
            skipped.append(curve)
            continue
        score = evaluate_curve(curve.batches, curve.latencies_s, probes=probes, errors=errors.value)
        scored.append(_Scored(curve, score))
    if not scored:
        raise InputError(
            f"has no curve with at least {max(min_sizes, probes + 1)} batch sizes; ask for fewer "
            "--probes or --min-sizes",
            str(path),
        )
    document = _document(scored, skipped, probes, errors)
    if as_json:
        typer.echo(dump(document))
    else:
        _show(document)


def _document(
    scored: list[_Scored], skipped: list[LatencyCurve], probes: int, errors: Errors
) -> dict[str, Any]:
    """Returns the scores; errors are fractions."""
    parts = list(dict.fromkeys(one.curve.part for one in scored))
    document: dict[str, Any] = {
        "curves": [
            {
                "workload": one.curve.workload,
                "gpu": one.curve.gpu,
                "part": one.curve.part,
                "sizes": len(one.curve.batches),
                "probes": [int(batch) for batch in one.score.probes],
                "mape": one.score.model_percent / 100,
                "mape_interpolation": one.score.interpolation_percent / 100,
                "mape_line": one.score.line_percent / 100,
            }
            for one in scored
        ],
        "by_part": {
            part: _summary([one.score for one in scored if one.curve.part == part])
            for part in parts
        },
        "skipped": [
            {"workload": c.workload, "gpu": c.gpu, "part": c.part, "sizes": len(c.batches)}
            for c in skipped
        ],
        "errors": errors.value,
        "probes": probes,
    }
    # The first part, iteration, stands at the top too; "curves" there is the list.
    overall = _summary([one.score for one in scored if one.curve.part == parts[0]])
    return overall | document


def _summary(scores: list[CurveScore]) -> dict[str, float | int]:
    summary = summarise(scores)
    return {
        "curves": len(scores),
        "mape_mean": summary.model_mean_percent / 100,
        "mape_median": summary.model_median_percent / 100,
        "mape_interpolation_mean": summary.interpolation_mean_percent / 100,
        "mape_interpolation_median": summary.interpolation_median_percent / 100,
        "mape_line_mean": summary.line_mean_percent / 100,
        "mape_line_median": summary.line_median_percent / 100,
        "better_than_interpolation": summary.wins,
        "worse_than_interpolation": summary.losses,
    }


def _show(document: dict[str, Any]) -> None:
    console = console_for_results()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("workload")
    table.add_column("GPU")
    table.add_column("part")
    for heading in ("sizes", "Srifty", "interpolation", "line"):
        table.add_column(heading, justify="right")
    table.add_column("probes")
    for curve in document["curves"]:
        table.add_row(
            curve["workload"],
            curve["gpu"],
            curve["part"],
            str(curve["sizes"]),
            *(f"{curve[key]:.2%}" for key in ("mape", "mape_interpolation", "mape_line")),
            ", ".join(map(str, curve["probes"])),
        )
    for part, summary in document["by_part"].items():
        for word in ("mean", "median"):
            keys = (f"mape_{word}", f"mape_interpolation_{word}", f"mape_line_{word}")
            table.add_row(
                Text(word, style="bold"),
                "",
                part,
                "",
                *(Text(f"{summary[key]:.2%}", style="bold") for key in keys),
            )
    what = "sizes not learned from" if document["errors"] == "held-out" else "all sizes"
    console.print(
        Text(f"Mean absolute error over {what}, from {document['probes']} probes", style="bold")
    )
    console.print(table)
    for part, summary in document["by_part"].items():
        console.print(
            f"{part}: better than interpolation on {summary['better_than_interpolation']}, worse "
            f"on {summary['worse_than_interpolation']} of {summary['curves']} curves"
        )
    for curve in document["skipped"]:
        console.print(
            Text(
                f"left out: {curve['workload']} on {curve['gpu']}, {curve['part']}: only "
                f"{curve['sizes']} sizes",
                style="dim",
            )
        )
