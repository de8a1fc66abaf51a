"""Arguments and options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from srifty.cloud.local import Launcher
from srifty.core.job import BatchRule, Job, Objective
from srifty.errors import InputError

JobPath = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a setting of the job file; may be given several times.",
    ),
]
Minimize = Annotated[
    Objective | None, typer.Option(help="What to minimise; replaces the job file's.")
]
Confidence = Annotated[
    float | None,
    typer.Option(help="Chance that deadline and budget both hold; 0.5 judges by the mean."),
]
Batches = Annotated[BatchRule | None, typer.Option(help="Which local batches a plan may use.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
BackendName = Annotated[str, typer.Option("--backend", help="Where VMs come from: local or ray.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD",
        min=0.01,
        help="Never spend more than this in total; default: the job's budget_usd.",
    ),
]
NewRunName = Annotated[
    str | None, typer.Option(metavar="RUN", help="The run's name; made up if left out.")
]
ScenarioPath = Annotated[
    Path | None,
    typer.Option(metavar="SCENARIO.yaml", help="local: how the played cloud behaves."),
]
LauncherName = Annotated[Launcher, typer.Option(help="local: what starts the workers.")]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--db",
        metavar="PATH",
        help="The store of samples; default: what SRIFTY_DB names, else srifty.db in your data "
        "folder.",
    ),
]


def adjusted(
    job: Job,
    minimize: Objective | None,
    confidence: float | None,
    batches: BatchRule | None,
) -> Job:
    """Returns the job with what the options replace; None leaves the job file's.

    Raises:
        InputError: the confidence is out of range.
    """
    if confidence is not None:
        try:
            job = replace(job, limits=replace(job.limits, confidence=confidence))
        except InputError as error:
            raise InputError(error.problems, "--confidence") from None
    return replace(job, objective=minimize or job.objective, batch_rule=batches or job.batch_rule)
