"""`srifty allreduce evaluate`: how far the models are off on samples that they did not see."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.allreduce.evaluation import (
    LEAST_PAIRS,
    SIZE_CLASSES,
    Scored,
    estimators,
    evaluate,
    noise_floor,
)
from srifty.allreduce.loading import load_samples
from srifty.allreduce.splits import By
from srifty.allreduce.store import store_path
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.errors import InputError

_CLASS_WORDS = {
    "small": "up to 9,001 B",
    "large": "above 9,001 B",
    "mib": "1 MiB and more",
    "all": "all sizes",
}
_HELD_OUT = {
    By.WORLD_SIZE: "one inner multi-VM world of a curve at a time",
    By.LARGEST_WORLD_SIZE: "the largest multi-VM world of each curve",
    By.CURVE: "one whole curve at a time",
    By.ALLOCATION: "one allocation at a time; the others measured the same worlds",
    By.RANDOM: "a fifth of the rows at random; this flatters, since neighbours stay in",
}


def evaluate_models(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="A CSV file of samples, or a store; default: your store."
        ),
    ] = None,
    by: Annotated[By, typer.Option(help="What is held out together.")] = By.WORLD_SIZE,
    models: Annotated[
        str, typer.Option(metavar="NAMES", help="Which models, separated by commas.")
    ] = "auto,kriging,interpolated,boosted,alpha-beta,paper",
    probes: Annotated[
        bool,
        typer.Option(
            help="With --by largest-world-size: three sizes (near 4 KiB, 1 MiB, 256 MiB) of the "
            "held-out world may be learned from; they are never scored."
        ),
    ] = True,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw measured against predicted times."),
    ] = None,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Train the models on part of your samples and score them on the rest.

    A family is an instance type. Errors are mean absolute relative errors of times; the mean gives
    every family the same weight. `auto` chooses its blend anew for each part, from that part alone.
    """
    if file is not None and db is not None:
        raise InputError("name a FILE or a --db, not both")
    types = builtin_instance_types()
    makers = estimators(types)
    wanted = [name.strip() for name in models.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in makers]
    if unknown or not wanted:
        raise InputError(
            f"--models takes some of {', '.join(makers)}, not {', '.join(unknown) or 'nothing'}"
        )
    if plot is not None:
        _require_matplotlib()
    path = file or db or store_path()
    table = SampleTable.of(load_samples(path))
    with SearchProgress("Training and scoring") as progress:
        try:
            scored = evaluate(
                table, by, {n: makers[n] for n in wanted}, probes=probes, progress=progress
            )
        except InputError as error:
            raise InputError(error.problems, str(path)) from None
    document = _document(table, scored, by, probes=probes)
    if plot is not None:
        _plot(scored, plot)
    if as_json:
        typer.echo(dump(document))
    else:
        _show(console_for_results(), document)
        if plot is not None:
            typer.echo(f"The plot is in {plot}.", err=True)


def _document(table: SampleTable, scored: Scored, by: By, *, probes: bool) -> dict[str, Any]:
    """Returns the scores; errors are fractions."""
    families = scored.families()
    pairs = {family: scored.pairs(rows) for family, rows in families.items()}
    judged = [family for family in families if pairs[family] >= LEAST_PAIRS]
    floor = noise_floor(table)

    def scores(name: str) -> dict[str, Any]:
        by_family = {
            family: {c: scored.mape(name, rows, c) for c in SIZE_CLASSES}
            for family, rows in families.items()
        }
        return {
            "mape_time": _means(list(by_family.values())),
            "mape_time_judged": _means([by_family[family] for family in judged]),
            "by_family": by_family,
        }

    coverage = {family: scored.coverage(rows) for family, rows in families.items()}
    document: dict[str, Any] = {
        "by": by.value,
        "splits": scored.splits,
        "rows": len(scored.table),
        "probes": probes if by is By.LARGEST_WORLD_SIZE else None,
        "models": {name: scores(name) for name in scored.forecast_s},
        "families": {
            family: {
                "pairs": pairs[family],
                "rows": int(rows.sum()),
                "judged": family in judged,
                "interval_coverage": coverage[family],
            }
            for family, rows in families.items()
        },
        "noise_floor": dict(floor.mape) | {"samples": floor.samples},
        "interval": 0.9,
        "interval_coverage": _mean(list(coverage.values())),
        "interval_coverage_judged": _mean([coverage[family] for family in judged]),
        "paper_floored": scored.floored,
    }
    return document


def _means(families: list[dict[str, float]]) -> dict[str, float]:
    return {c: _mean([family[c] for family in families]) for c in SIZE_CLASSES}


def _mean(values: list[float]) -> float:
    """Returns the mean of the values that are numbers; NaN where there are none."""
    numbers = [value for value in values if value == value]
    return sum(numbers) / len(numbers) if numbers else float("nan")


def _show(console: Console, document: dict[str, Any]) -> None:
    by = By(document["by"])
    console.print(Text(f"Held out: {_HELD_OUT[by]}.", style="bold"))
    if document["probes"]:
        console.print("Three sizes of the held-out world were learned from and not scored.")
    names = list(document["models"])
    for size_class, words in _CLASS_WORDS.items():
        table = Table(box=None, padding=(0, 2), header_style="dim")
        table.add_column(words)
        table.add_column("worlds", justify="right")
        for name in names:
            table.add_column(name, justify="right")
        for family, facts in document["families"].items():
            cells = [document["models"][name]["by_family"][family][size_class] for name in names]
            if any(cell == cell for cell in cells):
                style = "" if facts["judged"] else "dim"
                table.add_row(family, str(facts["pairs"]), *map(_percent, cells), style=style)
        means = [document["models"][name]["mape_time"][size_class] for name in names]
        table.add_row("mean over families", "", *map(_percent, means), style="bold")
        console.print(table)
        console.print(
            Text(f"  noise floor {_percent(document['noise_floor'][size_class])}", style="dim")
        )
    few = [family for family, facts in document["families"].items() if not facts["judged"]]
    if few:
        console.print(
            Text(f"Fewer than {LEAST_PAIRS} worlds held out: {', '.join(few)}.", style="dim")
        )
    covered = {f: facts["interval_coverage"] for f, facts in document["families"].items()}
    if document["interval_coverage"] == document["interval_coverage"]:
        console.print(
            f"auto's 90 % intervals cover {_percent(document['interval_coverage'])} of the times "
            f"({', '.join(f'{family} {_percent(share)}' for family, share in covered.items())})"
        )
    if document["paper_floored"]:
        console.print(
            f"The paper's form forecast a bandwidth of 0 or less {document['paper_floored']} times."
        )


def _percent(share: float) -> str:
    return "–" if share != share else f"{share:.1%}"


def _require_matplotlib() -> None:
    """Raises `InputError` where the plot could not be drawn: before minutes of work, not after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError('--plot needs matplotlib: pip install "srifty[report]"')


def _plot(scored: Scored, path: Path) -> None:
    """Writes the scatter plot of measured against predicted times of the first model.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib.figure import Figure  # an extra

    name, forecast_s = next(iter(scored.forecast_s.items()))
    figure = Figure(figsize=(7, 7), layout="constrained")
    axes = figure.subplots()
    for family, rows in scored.families().items():
        axes.loglog(
            scored.table.time_s[rows] * 1e6, forecast_s[rows] * 1e6, ".", alpha=0.6, label=family
        )
    ends = [float(scored.table.time_s.min()) * 1e6, float(scored.table.time_s.max()) * 1e6]
    axes.loglog(ends, ends, "k-", linewidth=0.8)
    axes.set_xlabel("measured allreduce time (µs)")
    axes.set_ylabel(f"forecast of {name}, held out (µs)")
    axes.legend()
    try:
        figure.savefig(path, format="svg", metadata={"Date": None})
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None
