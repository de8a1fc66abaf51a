"""Observed iteration times of real jobs → how fast the links between their VMs really are."""

from srifty.calibration.calibrate import (
    Calibration,
    calibrate,
    calibrated,
    forecast_observed,
    observed_configs,
)
from srifty.calibration.link import CalibratedAllreduce, CalibratedLink, LinkFactors
from srifty.calibration.posterior import LinkPrior
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
    "LinkFactors",
    "LinkPrior",
    "ObservedWorkload",
    "calibrate",
    "calibrated",
    "even_schedule",
    "forecast_observed",
    "observed_configs",
    "observed_workload",
]
