"""What every estimator of allreduce times answers, and the ones that go curve by curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.atlas import Atlas, Origin, Sheet, worlds_of
from srifty.allreduce.interpolated import InterpolatedCurve
from srifty.allreduce.kriging import KrigingCurve
from srifty.allreduce.table import Points, SampleTable
from srifty.allreduce.trend import Trend
from srifty.core.hardware import InstanceType

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Forecasts:
    """Answers to P questions.

    Attributes:
        log_time: (P,) natural logarithm of seconds; NaN where the estimator has no answer.
        log_sd: (P,) standard deviation of it; NaN where the estimator knows none.
        origin: (P,) what the answers rest on, as `Origin` numbers.
    """

    log_time: FloatArray
    log_sd: FloatArray
    origin: IntArray


class Estimator(Protocol):
    """Learns from samples, answers for questions of the same columns."""

    def fit(self, table: SampleTable) -> Self:
        """Learns from measured samples; returns itself."""
        ...

    def predict(self, questions: SampleTable) -> Forecasts:
        """Returns one forecast per row; times in the questions are not looked at."""
        ...


@dataclass(frozen=True)
class _CurveModel:
    """What is known of one curve.

    Attributes:
        answers: world sizes, VMs and bytes, (P,) each → (P,) log seconds and (P,) standard
            deviations, point by point; P > 0.
        least: world sizes (R,), VMs (R,), bytes (S,) and most ranks per VM → (R, S) log seconds
            that no world of at least so many ranks and VMs undercuts.
    """

    answers: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    least: Callable[[FloatArray, FloatArray, FloatArray, int], FloatArray]


class CurveEstimator:
    """One model per curve and link level; a question about another curve goes to a stand-in."""

    def __init__(
        self, make: Callable[[Points], _CurveModel], types: Mapping[str, InstanceType] | None = None
    ) -> None:
        """Takes how a curve's model is made and the instance types that are known by name."""
        self._make = make
        self._types = types or {}
        self._models: dict[Sheet, _CurveModel] = {}

    def fit(self, table: SampleTable) -> Self:
        """Sorts the samples; the models are made when they are first asked."""
        return self.fit_atlas(Atlas.of(table, self._types))

    def fit_atlas(self, atlas: Atlas) -> Self:
        """Takes samples that are sorted already."""
        self._atlas = atlas
        self._models = {}
        return self

    def predict(self, questions: SampleTable) -> Forecasts:
        """See `Estimator.predict`."""
        log_time = np.full(len(questions), np.nan)
        log_sd = np.full(len(questions), np.nan)
        origin = np.full(len(questions), int(Origin.NOTHING))
        asked_bytes = questions.size_bytes.copy()
        by_sheet: dict[Sheet, list[IntArray]] = {}
        for curve, world_size, vms, rows in worlds_of(questions):
            basis = self._atlas.basis(curve, world_size, vms)
            origin[rows] = self._atlas.origins(basis, world_size, vms, asked_bytes[rows])
            if basis.sheet is not None:
                asked_bytes[rows] *= basis.size_factor
                by_sheet.setdefault(basis.sheet, []).append(rows)
        for sheet, parts in by_sheet.items():
            rows = np.concatenate(parts)
            log_time[rows], log_sd[rows] = self._model(sheet).answers(
                questions.world_size[rows].astype(np.float64),
                questions.vms[rows].astype(np.float64),
                asked_bytes[rows],
            )
        return Forecasts(log_time, log_sd, origin)

    def least_log_time(
        self,
        sheet: Sheet,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        most_per_vm: int,
    ) -> FloatArray:
        """Returns (R, S) log seconds that no world of at least so many ranks and VMs undercuts.

        Args:
            sheet: the curve that is asked.
            world_size: (R,) ranks at least.
            vms: (R,) VMs at least.
            size_bytes: (S,) sizes.
            most_per_vm: worlds have no more ranks than so many times their VMs.
        """
        ranks, machines = world_size.astype(np.float64), vms.astype(np.float64)
        return self._model(sheet).least(ranks, machines, size_bytes, most_per_vm)

    def _model(self, sheet: Sheet) -> _CurveModel:
        if sheet not in self._models:
            self._models[sheet] = self._make(self._atlas.sheets[sheet])
        return self._models[sheet]


def interpolated(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that interpolates log time in log size and log world size."""

    def model(points: Points) -> _CurveModel:
        curve = InterpolatedCurve(points)
        return _CurveModel(_without_sd(curve.log_time), curve.least_log_time)

    return CurveEstimator(model, types)


def kriging(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that puts a Gaussian random field around each curve's trend."""

    def model(points: Points) -> _CurveModel:
        curve = KrigingCurve(points)
        return _CurveModel(curve.predict, curve.least_log_time)

    return CurveEstimator(model, types)


def alpha_beta(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that knows a latency and a bandwidth per curve and link level."""

    def model(points: Points) -> _CurveModel:
        trend = Trend.fit(points)
        return _CurveModel(_without_sd(trend.log_time), trend.least_log_time)

    return CurveEstimator(model, types)


def _without_sd(
    log_time: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    def answers(
        world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return log_time(world_size, vms, size_bytes), np.full(len(size_bytes), np.nan)

    return answers
