"""`srifty evaluate iterations`: forecast observed iterations from others, and report the error."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.baselines import PREDICTORS, Comparison, compare
from srifty.calibration import MOST_PROBES, HoldOut, IterationScores, folds
from srifty.catalog import builtin_instance_types
from srifty.cli._json import dump
from srifty.cli._observed import Observed, open_observed
from srifty.cli._options import AsJson
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.core.observation import Observation
from srifty.errors import InputError

_TRAIN_MAX_VMS = 4
_GROUPINGS: dict[str, Callable[[Observation], Any]] = {
    "by_workload": lambda row: row.workload,
    "by_world_size": lambda row: row.world_size,
    "by_gpu": lambda row: row.gpu,
}
_HEADINGS = {"by_workload": "workload", "by_world_size": "world size", "by_gpu": "GPU"}
_NOTHING_HELD = {
    HoldOut.WORKLOAD: "no instance type has rows with several VMs of two workloads or more",
    HoldOut.NODES: "no instance type has clusters on both sides of --train-max-vms {most}, with "
    "several VMs on the smaller side",
    HoldOut.RANDOM: "no instance type has enough rows with several VMs",
}


def iterations(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.csv",
            help="workload,gpu,instance_type,local_batch,step_s and placement (4-4-2) or "
            "vms,workers; where known accumulation, gradient_bytes and rated_gbit_per_s.",
        ),
    ],
    hold_out: Annotated[
        HoldOut,
        typer.Option(
            help="Forecast each workload from the others, larger clusters from smaller ones, or "
            "random fifths."
        ),
    ] = HoldOut.WORKLOAD,
    train_max_vms: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="With --hold-out nodes: the most VMs that may be learned from.",
            show_default=str(_TRAIN_MAX_VMS),
        ),
    ] = None,
    gradient_bytes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORKLOAD=SIZE",
            help="Size of a workload's gradients, such as mymodel=102MB; may be given several "
            "times.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT.csv", help="Write each held-out row with its forecasts."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast observed iteration times from others of the same instance type.

    Computation comes from at most 4 one-GPU rows of each workload and GPU, the links from the
    rows that the hold-out leaves in. Beside our model stand APM, its link fitted to the same rows,
    and computation alone.
    """
    if train_max_vms is not None and hold_out is not HoldOut.NODES:
        raise InputError("goes with --hold-out nodes only", "--train-max-vms")
    if output is not None and output.exists() and output.samefile(path):
        raise InputError("is the file that is read: name another", "--output")
    most = train_max_vms or _TRAIN_MAX_VMS
    observed = open_observed(path, gradient_bytes or ())
    known = [row for row in observed.observations if row.workload in observed.workloads]
    parts = folds(known, hold_out, train_max_vms=most)
    if not parts:
        largest = max((row.vms for row in known), default=0)
        raise InputError(
            f"nothing can be held out: {_NOTHING_HELD[hold_out].format(most=most)} (the largest "
            f"cluster has {largest} VMs; workloads without a one-GPU row do not count)",
            str(path),
        )
    blend = blend_of(builtin_source(), {**builtin_instance_types(), **observed.kinds})
    prior = LearnedModel(blend).without_relatives(observed.kinds)
    with SearchProgress("Learning from what is left in") as progress:
        compared = compare(parts, observed.kinds, observed.workloads, prior, progress)
    if not compared.observations:
        raise InputError("no held-out row's GPU has a one-GPU row of the same workload", str(path))
    if output is not None:
        _write(output, compared)
        typer.echo(f"Every forecast is in {output}.", err=True)
    document = _document(observed, compared, hold_out, most)
    if as_json:
        typer.echo(dump(document))
        return
    _show(console_for_results(), document)


def _write(path: Path, compared: Comparison) -> None:
    """Writes each held-out row with the forecasts of every predictor."""
    columns = ["workload", "gpu", "instance_type", "placement", "local_batch"]
    columns += ["accumulation", "step_s"]
    columns += [f"{name}_s" for name in PREDICTORS] + ["srifty_p90_s"]
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for place, row in enumerate(compared.observations):
                placement = "-".join(map(str, row.gpus_used))
                means = [float(compared.mean_s[name][place]) for name in PREDICTORS]
                p90_s = float(compared.p90_s["srifty"][place])
                what = [row.workload, row.gpu, row.instance_type, placement, row.local_batch]
                writer.writerow([*what, row.accumulation, row.step_s, *means, p90_s])
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None


def _document(
    observed: Observed, compared: Comparison, hold_out: HoldOut, train_max_vms: int
) -> dict[str, Any]:
    """Returns the scores of each predictor by its name, and what they rest on beside them."""
    basis = dict.fromkeys(one.basis for one in compared.calibrations)
    return {
        **{name: _scores(compared, name) for name in PREDICTORS},
        "hold_out": hold_out.value,
        "train_max_vms": train_max_vms if hold_out is HoldOut.NODES else None,
        "rows": len(compared.observations),
        "learned_rows": list(compared.learned),
        "probes": MOST_PROBES,
        "gradients": {
            name: {"bytes": source.schedule.total_bytes, "from": source.origin}
            for name, source in observed.gradients.items()
        },
        "links": [
            {
                "instance_type": one.instance_type.name,
                "log_factors": asdict(one.factors),
                "worker_spread": one.spread,
                "log_effects": {name: own.effect for name, own in one.traits.items()},
                "slowdowns": {name: own.slowdown for name, own in one.traits.items()},
                "error_of_new_workloads": asdict(one.new_error),
                "error_of_seen_workloads": asdict(one.seen_error),
            }
            for one in compared.calibrations
        ],
        "assumptions": [*observed.notes, *basis],
    }


def _scores(compared: Comparison, name: str) -> dict[str, Any]:
    """Returns one predictor's scores over all rows, and by each grouping."""
    measured_s = np.array([row.step_s for row in compared.observations])
    mean_s, p90_s = compared.mean_s[name], compared.p90_s[name]
    scores: dict[str, Any] = asdict(IterationScores.of(measured_s, mean_s, p90_s))
    for key, group_of in _GROUPINGS.items():
        groups = [group_of(row) for row in compared.observations]
        scores[key] = {}
        for group in sorted(set(groups)):
            here = np.array([other == group for other in groups])
            score = IterationScores.of(measured_s[here], mean_s[here], p90_s[here])
            scores[key][str(group)] = asdict(score)
    return scores


def _show(console: Console, document: dict[str, Any]) -> None:
    """Prints the scores for people."""
    held = {"workload": "each workload from the others", "random": "random fifths from the rest"}
    most = document["train_max_vms"]
    words = held.get(document["hold_out"], f"clusters above {most} VMs from smaller ones")
    console.print(Text(f"{document['rows']:,} iterations forecast: {words}", style="bold"))
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    columns = {
        "mape": "mean error",
        "median": "median error",
        "underestimated_share": "too low",
        "underestimation_p90": "9 of 10 of those by",
        "p90_coverage": "within the P90",
    }
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for name in PREDICTORS:
        table.add_row(name, *(f"{document[name][key]:.1%}" for key in columns))
    console.print(table)
    for key, heading in _HEADINGS.items():
        groups = document[PREDICTORS[0]][key]
        if len(groups) > 1:
            console.print()
            console.print(_by_group(document, key, heading))
    console.print()
    for name, source in document["gradients"].items():
        console.print(
            Text(f"  - gradients of {name}: {source['bytes'] / 1e6:.1f} MB ({source['from']})"),
            style="dim",
        )
    for sentence in document["assumptions"]:
        console.print(Text(f"  - {sentence}", style="dim"))


def _by_group(document: dict[str, Any], key: str, heading: str) -> Table:
    """Returns the mean errors of each group."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column(heading)
    table.add_column("rows", justify="right")
    for name in PREDICTORS:
        table.add_column(name, justify="right")
    table.add_column("within Srifty's P90", justify="right")
    for group, ours in document[PREDICTORS[0]][key].items():
        errors = (document[name][key][group]["mape"] for name in PREDICTORS)
        table.add_row(
            group,
            f"{ours['rows']:,}",
            *(f"{error:.1%}" for error in errors),
            f"{ours['p90_coverage']:.0%}",
        )
    return table
