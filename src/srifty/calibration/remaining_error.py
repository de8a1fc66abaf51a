"""How far a calibrated link is still off, from rows that were left out of the calibration.

The error is stated as the simulator uses it, a standard deviation as a fraction of the link's part
of an iteration: the smallest with which nine of ten left-out rows stay below their forecast's P90.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.calibration.calibrated import Calibration
from srifty.calibration.forecast import forecast_observed
from srifty.calibration.workload import ObservedWorkload
from srifty.core.observation import Observation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Learn = Callable[[BoolArray], Calibration]

# The share of rows that must stay below, and where a normal has it.
_HELD = 0.9
_HELD_STDS = float(ndtri(_HELD))
# A link whose time is unknown by more than this is not known at all.
_MOST_FRACTION = 1.0


def remaining_fraction(
    groups: IntArray,
    learn: Learn,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    allocation_fraction: float,
) -> float | None:
    """Returns the link's error; None where no group can be left out.

    Args:
        groups: (R,) the group of each observation; each is forecast from the others.
        learn: returns a calibration from the marked observations.
        observations: R observations of one instance type.
        workloads: their computation and gradients by name.
        prior: the model that calibrations start from.
        allocation_fraction: the spread between allocations that forecasts count besides.
    """
    has_several = np.array([row.vms > 1 for row in observations])
    needed: list[FloatArray] = []
    weights: list[FloatArray] = []
    for group in np.unique(groups[has_several]):
        left_out = groups == group
        if not has_several[~left_out].any():
            continue
        learned = learn(~left_out)
        held = [observations[int(place)] for place in np.flatnonzero(left_out & has_several)]
        for name in dict.fromkeys(row.workload for row in held):
            rows = [row for row in held if row.workload == name]
            needed.append(
                _needed_fraction(rows, workloads[name], learned, prior, allocation_fraction)
            )
            weights.append(np.full(len(rows), 1 / len(rows)))
    if not needed:
        return None
    return _quantile(np.concatenate(needed), np.concatenate(weights), _HELD)


def _needed_fraction(
    rows: Sequence[Observation],
    workload: ObservedWorkload,
    learned: Calibration,
    prior: AllreduceModel,
    allocation_fraction: float,
) -> FloatArray:
    """Returns (R,) the link's error with which each row just stays below its forecast's P90."""
    certain = Uncertainty(allocation_fraction, 0.0)
    exact, unsure = (
        forecast_observed(rows, workload, learned.with_uncertainty(uncertainty), prior)
        for uncertainty in (certain, replace(certain, model_fraction=1.0))
    )
    measured_s = np.array([row.step_s for row in rows])
    variance = np.square(np.maximum(measured_s - exact.mean_s, 0.0) / _HELD_STDS)
    lacking = variance - np.square(exact.persistent_std_s)
    per_fraction = np.square(unsure.persistent_std_s) - np.square(exact.persistent_std_s)
    with np.errstate(divide="ignore"):  # no error of the link explains a row without exchange
        fraction = np.sqrt(np.where(lacking > 0, lacking, 1.0) / np.maximum(per_fraction, 0.0))
    return np.where(lacking > 0, fraction, 0.0)


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """Returns the smallest value that a share of the weight does not exceed, at most 1."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    place = min(int(np.searchsorted(reached, share)), len(values) - 1)
    return min(float(values[order][place]), _MOST_FRACTION)
