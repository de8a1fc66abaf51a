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


class _CurveModel(Protocol):
    def __call__(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (P,) log seconds and (P,) standard deviations, point by point; P > 0."""
        ...


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
            log_time[rows], log_sd[rows] = self._model(sheet)(
                questions.world_size[rows].astype(np.float64),
                questions.vms[rows].astype(np.float64),
                asked_bytes[rows],
            )
        return Forecasts(log_time, log_sd, origin)

    def _model(self, sheet: Sheet) -> _CurveModel:
        if sheet not in self._models:
            self._models[sheet] = self._make(self._atlas.sheets[sheet])
        return self._models[sheet]


def interpolated(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that interpolates log time in log size and log world size."""
    return CurveEstimator(lambda points: _without_sd(InterpolatedCurve(points).log_time), types)


def kriging(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that puts a Gaussian random field around each curve's trend."""
    return CurveEstimator(lambda points: KrigingCurve(points).predict, types)


def alpha_beta(types: Mapping[str, InstanceType] | None = None) -> CurveEstimator:
    """Returns the estimator that knows a latency and a bandwidth per curve and link level."""
    return CurveEstimator(lambda points: _without_sd(Trend.fit(points).log_time), types)


def _without_sd(
    log_time: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> _CurveModel:
    def model(
        world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return log_time(world_size, vms, size_bytes), np.full(len(size_bytes), np.nan)

    return model
