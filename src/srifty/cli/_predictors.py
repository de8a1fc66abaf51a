"""`--predictor`: what stands in for our simulator, learned from what it learns from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from srifty.baselines import apm_of, paleo_of
from srifty.catalog import builtin_gpus
from srifty.cli._workbench import Workbench
from srifty.errors import InputError
from srifty.simulator import Predictor


class PredictorName(StrEnum):
    """What forecasts iterations."""

    SRIFTY = "srifty"
    APM = "apm"
    PALEO = "paleo"


ChosenPredictor = Annotated[
    PredictorName,
    typer.Option(
        help="What forecasts iterations: our simulator, or a baseline that stands in for it."
    ),
]


def predictor_of(bench: Workbench, name: PredictorName) -> Predictor:
    """Returns the predictor of that name for a job.

    Raises:
        InputError: Paleo is asked for, and the profiles hold no layers.
    """
    if name is PredictorName.APM:
        return apm_of(bench.job, bench.catalog.offers, bench.simulator.allreduce)
    if name is PredictorName.PALEO:
        try:
            return paleo_of(bench.job, builtin_gpus())
        except InputError as error:
            raise InputError(error.problems, "--predictor paleo") from None
    return bench.simulator
