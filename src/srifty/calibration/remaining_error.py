"""How far a calibration is still off, from rows that were left out of it.

Errors are stated as the simulator uses them, standard deviations as fractions of the computation
and of the link's part of an iteration, each the smallest with which nine of ten left-out rows stay
below their forecast's P90: first the computation's, on the rows that the link hardly delays, then
the link's on all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.calibrated import Calibration, RemainingError
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
# What is unknown by more than this is not known at all.
_MOST_FRACTION = 1.0
# A link's share of an iteration that hardly matters.
_HARDLY = 0.1


@dataclass(frozen=True)
class _LeftOut:
    """R rows that were forecast from others.

    Attributes:
        weight: (R,) each workload's rows together count the same.
        lacking: (R,) variance that the forecast lacks for its P90 to hold the row; s², may be < 0.
        computed_s: (R,) the computation's part of the forecast.
        network_s: (R,) the link's part.
    """

    weight: FloatArray
    lacking: FloatArray
    computed_s: FloatArray
    network_s: FloatArray


def remaining_error(
    groups: IntArray,
    learn: Learn,
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
) -> RemainingError | None:
    """Returns the error of forecasts; None where no group can be left out.

    Args:
        groups: (R,) the group of each observation; each is forecast from the others.
        learn: returns a calibration from the marked observations.
        observations: R observations of one instance type.
        workloads: their computation and gradients by name.
        prior: the model that calibrations start from.
    """
    has_several = np.array([row.vms > 1 for row in observations])
    parts: list[_LeftOut] = []
    for group in np.unique(groups[has_several]):
        left_out = groups == group
        if not has_several[~left_out].any():
            continue
        learned = learn(~left_out)
        held = [observations[int(place)] for place in np.flatnonzero(left_out & has_several)]
        for name in dict.fromkeys(row.workload for row in held):
            rows = [row for row in held if row.workload == name]
            parts.append(_left_out(rows, workloads[name], learned, prior))
    if not parts:
        return None
    every = _LeftOut(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(_LeftOut)
        }
    )
    computation = _computation(every)
    lacking = every.lacking - np.square(computation * every.computed_s)
    link = _needed(lacking, every.network_s, every.weight)
    return RemainingError(link, computation)


def _left_out(
    rows: Sequence[Observation],
    workload: ObservedWorkload,
    learned: Calibration,
    prior: AllreduceModel,
) -> _LeftOut:
    """Returns how far rows of one workload are from what was learned without them."""
    exact, unsure = (
        forecast_observed(rows, workload, learned.with_error(RemainingError(link)), prior)
        for link in (0.0, 1.0)
    )
    measured_s = np.array([row.step_s for row in rows])
    needed = np.square(np.maximum(measured_s - exact.mean_s, 0.0) / _HELD_STDS)
    known = np.square(exact.persistent_std_s)
    network_s = np.sqrt(np.maximum(np.square(unsure.persistent_std_s) - known, 0.0))
    return _LeftOut(
        weight=np.full(len(rows), 1 / len(rows)),
        lacking=needed - known,
        computed_s=exact.mean_s - network_s,
        network_s=network_s,
    )


def _computation(rows: _LeftOut) -> float:
    """Returns the computation's error, from the rows that the link hardly delays."""
    here = rows.network_s <= _HARDLY * (rows.computed_s + rows.network_s)
    if not here.any():
        return 0.0
    return _needed(rows.lacking[here], rows.computed_s[here], rows.weight[here])


def _needed(lacking: FloatArray, part_s: FloatArray, weight: FloatArray) -> float:
    """Returns the error of a part of the forecast with which most rows lack no variance."""
    fraction = np.where(lacking > 0, np.inf, 0.0)  # a part that is not there explains nothing
    explained = (lacking > 0) & (part_s > 0)
    fraction[explained] = np.sqrt(lacking[explained]) / part_s[explained]
    order = np.argsort(fraction)
    reached = np.cumsum(weight[order]) / weight.sum()
    place = min(int(np.searchsorted(reached, _HELD)), len(order) - 1)
    return min(float(fraction[order][place]), _MOST_FRACTION)
