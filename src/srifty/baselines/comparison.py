"""Srifty and the baselines on the same held-out observations, learning from the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from srifty.allreduce.base import AllreduceModel
from srifty.baselines.apm import Apm, linear_latency
from srifty.baselines.compute_only import ComputeOnly
from srifty.baselines.ring import Ring, RingAllreduce, fit_ring
from srifty.calibration import (
    Calibration,
    Fold,
    ObservedWorkload,
    calibrate,
    calibrated_simulator,
    observed_configs,
)
from srifty.calibration.workload import usable
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.simulator.predictor import Predictor
from srifty.simulator.transfers import schedule_profile

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]

SRIFTY, APM, COMPUTE_ONLY = "srifty", "apm", "compute-only"
PREDICTORS = (SRIFTY, APM, COMPUTE_ONLY)
_P90_STDS = float(ndtri(0.9))


@dataclass(frozen=True)
class Comparison:
    """R held-out observations with every predictor's forecasts.

    Attributes:
        observations: what was measured.
        mean_s: (R,) forecast seconds by predictor.
        p90_s: (R,) seconds that hold nine times of ten, by predictor; the mean where a predictor
            knows no spread.
        calibrations: what was learned, one per fold.
        learned: rows that were learned from, one count per fold.
    """

    observations: tuple[Observation, ...]
    mean_s: Mapping[str, FloatArray]
    p90_s: Mapping[str, FloatArray]
    calibrations: tuple[Calibration, ...]
    learned: tuple[int, ...]


def compare(
    parts: Sequence[Fold],
    kinds: Mapping[str, InstanceType],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
    progress: Progress | None = None,
) -> Comparison:
    """Returns all predictors' forecasts of all held-out rows.

    Args:
        parts: what is learned from and what is forecast.
        kinds: the instance types by name.
        workloads: computation and gradients by name; rows of others are passed over.
        prior: answers what an allreduce takes before anything was observed.
        progress: called with (done, all) folds.

    Raises:
        ModelError: a fold has nothing to learn from.
    """
    rows: list[Observation] = []
    mean_s: dict[str, list[FloatArray]] = {name: [] for name in PREDICTORS}
    p90_s: dict[str, list[FloatArray]] = {name: [] for name in PREDICTORS}
    calibrations: list[Calibration] = []
    learned_rows: list[int] = []
    for done, part in enumerate(parts):
        kind = kinds[part.instance_type]
        learned = usable(part.learned, workloads, kind)
        held = usable(part.held, workloads, kind)
        if not held:
            continue
        found = calibrate(kind, learned, workloads, prior)
        ring = learn_ring(learned, workloads)
        calibrations.append(found)
        learned_rows.append(len(learned))
        for name in dict.fromkeys(row.workload for row in held):
            mine = [row for row in held if row.workload == name]
            rows += mine
            configs = observed_configs(mine, kind)
            for label, predictor in predictors(workloads[name], found, ring, prior).items():
                table = predictor.predict(workloads[name].job, configs)
                mean_s[label].append(table.mean_s)
                # What was measured is a mean over steps: their noise has averaged out.
                p90_s[label].append(table.mean_s + _P90_STDS * table.persistent_std_s)
        if progress is not None:
            progress(done + 1, len(parts))
    return Comparison(
        tuple(rows),
        {name: np.concatenate([np.zeros(0), *values]) for name, values in mean_s.items()},
        {name: np.concatenate([np.zeros(0), *values]) for name, values in p90_s.items()},
        tuple(calibrations),
        tuple(learned_rows),
    )


def predictors(
    workload: ObservedWorkload, found: Calibration, ring: Ring, prior: AllreduceModel
) -> dict[str, Predictor]:
    """Returns the predictors of one workload by name.

    Args:
        workload: its computation and gradients.
        found: what Srifty learned of the instance type.
        ring: what APM learned of it.
        prior: the model that both fall back to.
    """
    rings = RingAllreduce({found.instance_type.name: ring}, prior)
    return {
        SRIFTY: calibrated_simulator(workload, found, prior),
        APM: Apm({p.gpu: linear_latency(p) for p in workload.job.profiles}, rings),
        COMPUTE_ONLY: ComputeOnly(workload.latency),
    }


def learn_ring(learned: Sequence[Observation], workloads: Mapping[str, ObservedWorkload]) -> Ring:
    """Returns APM's ring from observations of one instance type; those on one VM are left out."""
    rows = [row for row in learned if row.vms > 1]
    lines = {
        (name, profile.gpu): linear_latency(profile)
        for name in {row.workload for row in rows}
        for profile in workloads[name].job.profiles
    }
    sizes = {name: _gradient_bytes(workloads[name]) for name, _ in lines}
    compute_s = np.array(
        [
            row.accumulation
            * float(lines[row.workload, row.gpu].step_s(np.array([row.micro_batch]))[0])
            for row in rows
        ]
    )
    return fit_ring(
        np.array([row.step_s for row in rows]),
        compute_s,
        np.array([row.world_size for row in rows]),
        np.array([sizes[row.workload] for row in rows]),
    )


def _gradient_bytes(workload: ObservedWorkload) -> float:
    profile = schedule_profile(workload.job)
    if profile is None or profile.gradients is None:
        return 0.0
    return float(profile.gradients.total_bytes)
