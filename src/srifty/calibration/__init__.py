"""Observed iteration times of real jobs → how fast the links between their VMs really are."""

from srifty.calibration.calibrate import calibrate
from srifty.calibration.calibrated import Calibration, RemainingError, Traits, calibrated
from srifty.calibration.forecast import (
    calibrated_simulator,
    forecast_observed,
    observed_configs,
)
from srifty.calibration.hold_out import Fold, HoldOut, folds
from srifty.calibration.link import CalibratedAllreduce, CalibratedLink, LinkFactors
from srifty.calibration.posterior import LinkPrior
from srifty.calibration.scores import IterationScores
from srifty.calibration.together import calibrate_together
from srifty.calibration.workload import (
    MOST_PROBES,
    ObservedWorkload,
    even_schedule,
    observed_workload,
)

__all__ = [
    "MOST_PROBES",
    "CalibratedAllreduce",
    "CalibratedLink",
    "Calibration",
    "Fold",
    "HoldOut",
    "IterationScores",
    "LinkFactors",
    "LinkPrior",
    "ObservedWorkload",
    "RemainingError",
    "Traits",
    "calibrate",
    "calibrate_together",
    "calibrated",
    "calibrated_simulator",
    "even_schedule",
    "folds",
    "forecast_observed",
    "observed_configs",
    "observed_workload",
]
