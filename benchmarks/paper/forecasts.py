"""Forecasts of public runs from what was left in: ours with its P10 and P90, APM's, linear scaling.

Each run also gets the regime it is in: *input-bound* where a VM with all its GPUs at work is slower
than one GPU alone by a quarter although nothing is exchanged (measured: the host or the loader is
shared); else, by our forecast, *compute-bound* where the exchange adds less than a fifth of the
iteration, *latency-bound* where start-ups are more than half of the exchange, and
*bandwidth-bound*.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.iteration_times import write_rows
from benchmarks.paper.public_runs import Row, RunSet
from srifty.allreduce.base import AllreduceModel
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.baselines.comparison import learn_ring, predictors
from srifty.calibration import (
    Calibration,
    ObservedWorkload,
    calibrate,
    calibrated_simulator,
    observed_configs,
)
from srifty.calibration.link import latency_s
from srifty.calibration.workload import usable
from srifty.catalog import builtin_instance_types
from srifty.cli._observed import open_observed
from srifty.core.observation import Observation
from srifty.simulator.transfers import job_transfers

FloatArray = NDArray[np.float64]

REGIMES = ("input-bound", "compute-bound", "latency-bound", "bandwidth-bound")
_P90_STDS = float(ndtri(0.9))
_SHARED_HOST = 1.25
_EXPOSED = 0.2


@dataclass(frozen=True)
class Forecasts:
    """R runs of one set with everybody's forecasts.

    Attributes:
        name: the set's.
        runs: what was measured.
        measured_s: (R,) seconds of an iteration.
        mean_s: (R,) ours.
        p10_s: (R,) below which one run in ten ends.
        p90_s: (R,) below which nine in ten end.
        apm_s: (R,) APM's.
        linear_s: (R,) the slowest worker's computation alone: throughput grows linearly.
        exposed_s: (R,) what our forecast's exchange adds to the computation.
        sync_s: (R,) what it added as measured; NaN where nobody measured that.
        host: (R,) how much slower a VM's GPUs compute together than one alone; NaN: not measured.
        regime: (R,) one of `REGIMES`.
    """

    name: str
    runs: tuple[Observation, ...]
    measured_s: FloatArray
    mean_s: FloatArray
    p10_s: FloatArray
    p90_s: FloatArray
    apm_s: FloatArray
    linear_s: FloatArray
    exposed_s: FloatArray
    sync_s: FloatArray
    host: FloatArray
    regime: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def error(self) -> FloatArray:
        """(R,) signed error of ours, a fraction of the measured time."""
        return self.mean_s / self.measured_s - 1

    @property
    def inside(self) -> NDArray[np.bool_]:
        """(R,) whether the run ended between P10 and P90."""
        return (self.p10_s <= self.measured_s) & (self.measured_s <= self.p90_s)

    @property
    def late(self) -> NDArray[np.bool_]:
        """(R,) whether the run took longer than the P90."""
        return self.measured_s > self.p90_s

    def take(self, rows: NDArray[np.bool_]) -> Forecasts:
        """Returns some runs."""
        arrays = {
            field.name: getattr(self, field.name)[rows]
            for field in fields(self)
            if field.name not in ("name", "runs")
        }
        return Forecasts(self.name, tuple(np.array(self.runs, dtype=object)[rows]), **arrays)


def joined(name: str, parts: Iterable[Forecasts]) -> Forecasts:
    """Returns the runs of several sets as one."""
    listed = list(parts)
    arrays = {
        field.name: np.concatenate([getattr(part, field.name) for part in listed])
        for field in fields(Forecasts)
        if field.name not in ("name", "runs")
    }
    return Forecasts(name, tuple(run for part in listed for run in part.runs), **arrays)


def forecast(runs: RunSet) -> Forecasts:
    """Returns the forecasts of a set's held-out runs; nothing of them was learned from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "iterations.csv"
        write_rows(list(runs.rows), path)
        observed = open_observed(path)
    blend = blend_of(builtin_source(), {**builtin_instance_types(), **observed.kinds})
    prior = LearnedModel(blend).without_relatives(observed.kinds)
    shared = _shared_hosts(runs.rows)
    sync = _sync(runs.rows)
    parts: list[Forecasts] = []
    for part in runs.split(observed.observations):
        kind = observed.kinds[part.instance_type]
        learned = usable(part.learned, observed.workloads, kind)
        held = usable(part.held, observed.workloads, kind)
        if not held or not any(row.vms > 1 for row in learned):
            continue
        found = calibrate(kind, learned, observed.workloads, prior)
        ring = learn_ring(learned, observed.workloads)
        for name in dict.fromkeys(row.workload for row in held):
            mine = [row for row in held if row.workload == name]
            workload = observed.workloads[name]
            configs = observed_configs(mine, kind)
            tables = {
                label: predictor.predict(workload.job, configs)
                for label, predictor in predictors(workload, found, ring, prior).items()
            }
            ours = tables["srifty"]
            # What was measured is a mean over steps: their noise has averaged out.
            apart_s = _P90_STDS * ours.persistent_std_s
            exposed = ours.exposed_exchange_s / ours.mean_s
            host = np.array(
                [shared.get((r.workload, r.local_batch, max(r.gpus_used)), np.nan) for r in mine]
            )
            parts.append(
                Forecasts(
                    name=runs.name,
                    runs=tuple(mine),
                    measured_s=np.array([row.step_s for row in mine]),
                    mean_s=ours.mean_s,
                    p10_s=np.maximum(ours.mean_s - apart_s, 0.0),
                    p90_s=ours.mean_s + apart_s,
                    apm_s=tables["apm"].mean_s,
                    linear_s=tables["compute-only"].mean_s,
                    exposed_s=ours.exposed_exchange_s,
                    sync_s=np.array([sync.get(_key(row), np.nan) for row in mine]),
                    host=host,
                    regime=_regimes(mine, workload, found, prior, exposed, host),
                )
            )
    return joined(runs.name, parts)


def _key(row: Observation) -> tuple[str, int, tuple[int, ...]]:
    return row.workload, row.local_batch, row.gpus_used


def _sync(rows: Sequence[Row]) -> dict[tuple[str, int, tuple[int, ...]], float]:
    """Returns the measured exposed exchange, where there is one."""
    return {
        (row["workload"], int(row["local_batch"]), _placement(row)): float(row["sync_s"])
        for row in rows
        if row["sync_s"]
    }


def _placement(row: Row) -> tuple[int, ...]:
    return tuple(int(used) for used in row["placement"].split("-"))


def _shared_hosts(rows: Sequence[Row]) -> dict[tuple[str, int, int], float]:
    """Returns by workload, batch and GPUs of one VM its slow-down over one GPU, exchange apart."""
    alone = {
        (row["workload"], row["local_batch"]): float(row["step_s"])
        for row in rows
        if _placement(row) == (1,)
    }
    slow: dict[tuple[str, int, int], float] = {}
    for row in rows:
        one_s = alone.get((row["workload"], row["local_batch"]))
        used = _placement(row)
        if one_s and len(used) == 1 and used[0] > 1:
            key = (row["workload"], int(row["local_batch"]), used[0])
            slow[key] = (float(row["step_s"]) - float(row["sync_s"] or 0)) / one_s
    return slow


def _regimes(
    runs: Sequence[Observation],
    workload: ObservedWorkload,
    found: Calibration,
    prior: AllreduceModel,
    exposed: FloatArray,
    host: FloatArray,
) -> NDArray[np.str_]:
    kind = found.instance_type
    world = np.array([run.world_size for run in runs])
    vms = np.array([run.vms for run in runs])
    started = np.zeros(len(runs))
    sent = job_transfers(workload.job)
    if sent is not None:
        allreduce = calibrated_simulator(workload, found, prior).allreduce
        whole_s = allreduce.time_s(kind, world, vms, sent.sizes_bytes).sum(axis=1)
        started = latency_s(prior, kind, world, vms)[:, 0] * len(sent) / whole_s
    return np.select(
        [host >= _SHARED_HOST, exposed < _EXPOSED, started > 0.5],
        list(REGIMES[:3]),
        REGIMES[3],
    )
