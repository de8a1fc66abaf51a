"""`srifty allreduce fit`: choose the blend by cross-validation, and keep it beside the store."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from srifty.allreduce.loading import fit_blend, plan_source
from srifty.allreduce.recipe import Recipe
from srifty.allreduce.table import SampleTable
from srifty.allreduce.tuning import tune
from srifty.catalog import builtin_instance_types
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results


def fit_models(
    tune_trials: Annotated[
        int,
        typer.Option(
            "--tune",
            metavar="TRIALS",
            min=0,
            max=1000,
            help="Search the trees' settings so many times first (needs Optuna: the extra tune).",
        ),
    ] = 0,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Fit the allreduce models to your samples, as the next plan would, and show what was chosen.

    Plans do this by themselves when the samples have changed; fit shows the outcome, and can tune.
    """
    source = plan_source(db)
    types = builtin_instance_types()
    options = None
    if tune_trials:
        table = SampleTable.of(source.read())
        with SearchProgress("Tuning the trees") as progress:
            options = tune(table, types, trials=tune_trials, progress=progress)
    with SearchProgress("Fitting the allreduce models") as progress:
        blend, kept = fit_blend(source, types, boosting=options, progress=progress)
    document = {
        "curves": len(blend.atlas.sheets),
        "points": sum(map(len, blend.atlas.sheets.values())),
        "allocation_fraction": blend.atlas.allocation_fraction,
        "slow_vms": blend.atlas.slow_vms,
        "kept_in": str(kept) if kept else None,
        "boosting": options.parameters() | {"rounds": options.rounds} if options else None,
    } | blend.recipe.document()
    if as_json:
        typer.echo(dump(document))
        return
    _show(document, blend.recipe)


def _show(document: dict[str, Any], recipe: Recipe) -> None:
    console = console_for_results()
    console.print(
        Text(f"{document['points']:,} points of {document['curves']} curves", style="bold")
    )
    if not recipe.choices:
        console.print("Too few worlds to compare models: kriging answers alone.")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    names = list(recipe.choices[0].errors) if recipe.choices else []
    for heading in ("answers rest on", "size", "worlds", "blend", "error", *names):
        table.add_column(heading, justify="left" if heading in ("size", "blend") else "right")
    for choice in recipe.choices:
        blend = " + ".join(f"{w:.0%} {name}" for name, w in choice.weights.items() if w > 0)
        table.add_row(
            choice.regime,
            "1 MiB and more" if choice.large else "below 1 MiB",
            str(choice.groups),
            blend,
            f"{choice.error:.1%}",
            *(f"{choice.errors[name]:.1%}" if name in choice.errors else "–" for name in names),
        )
    if recipe.choices:
        console.print(table)
        console.print(
            Text(
                "Errors: mean absolute relative error of times on held-out worlds, every instance "
                "type alike.",
                style="dim",
            )
        )
    if document["kept_in"]:
        kept = f"Kept in {document['kept_in']}; plans use it until the samples change."
        typer.echo(kept, err=True)
