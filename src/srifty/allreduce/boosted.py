"""Boosted trees on every feature of a sample: the paper's learner, on log bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from srifty.allreduce.atlas import Origin
from srifty.allreduce.boosting import THREADS, BoostingOptions
from srifty.allreduce.estimator import Forecasts
from srifty.allreduce.table import SampleTable, bus_bytes_of
from srifty.core.hardware import InstanceType

FloatArray = NDArray[np.float64]

# The largest packet on EC2 (9,001 bytes); the paper calls messages up to it small.
MTU_BYTES = 9001

_NUMBERS = ("size", "world_size", "vms", "gpus_per_vm", "concurrent", "rated_gbit_per_s")
_CATEGORIES = (
    "instance_type",
    "gpu",
    "cpu_vendor",
    "cloud",
    "region",
    "zone",
    "placement_group",
    "transport",
    "library_version",
    "config",
)


class Boosted:
    """XGBoost on log bus bandwidth: no forecast can be negative, and the loss is relative error."""

    def __init__(
        self,
        types: Mapping[str, InstanceType] | None = None,
        options: BoostingOptions | None = None,
    ) -> None:
        """Takes the instance types that are known by name (for rated speed and CPU)."""
        self._features = _Features(types or {})
        self._options = options or BoostingOptions()

    def fit(self, table: SampleTable) -> Self:
        """See `Estimator.fit`."""
        self._features.fit(table)
        self._trees = _train(
            self._features.matrix(table),
            np.log(bus_bandwidth(table)),
            table.weight,
            self._options,
        )
        return self

    def predict(self, questions: SampleTable) -> Forecasts:
        """See `Estimator.predict`."""
        log_bandwidth = self._trees.predict(self._features.matrix(questions))
        return _forecasts(questions, np.asarray(log_bandwidth, dtype=np.float64))

    def codes(self) -> dict[str, dict[str, int]]:
        """Returns the numbers of the categories: with `raw`, all that was learned."""
        return self._features.codes

    def raw(self) -> bytes:
        """Returns the trees in XGBoost's own binary format (UBJSON)."""
        return bytes(self._trees.save_raw("ubj"))

    @classmethod
    def restored(
        cls, types: Mapping[str, InstanceType], codes: dict[str, dict[str, int]], raw: bytes
    ) -> Self:
        """Returns what `codes` and `raw` were taken from.

        Raises:
            ValueError: `raw` holds no trees.
        """
        boosted = cls(types)
        boosted._features.codes = codes
        boosted._trees = xgboost.Booster({"nthread": THREADS})
        try:
            boosted._trees.load_model(bytearray(raw))
        except xgboost.core.XGBoostError as error:
            raise ValueError(str(error)) from None
        return boosted


class PaperBoosted:
    """The paper's form, kept for the record: raw bandwidth, one model on each side of the MTU.

    It still forecasts bandwidths of zero and below; such rows get the smallest bandwidth that was
    measured on their side, and `floored` counts them.
    """

    def __init__(
        self,
        types: Mapping[str, InstanceType] | None = None,
        options: BoostingOptions | None = None,
    ) -> None:
        """Takes the instance types that are known by name (for rated speed and CPU)."""
        self._features = _Features(types or {})
        self._options = options or BoostingOptions()
        self.floored = 0

    def fit(self, table: SampleTable) -> Self:
        """See `Estimator.fit`."""
        self._features.fit(table)
        self._sides: dict[bool, tuple[xgboost.Booster, float]] = {}
        small = table.size_bytes <= MTU_BYTES
        bandwidth = bus_bandwidth(table)
        for side in (True, False):
            rows = small == side
            if not rows.any():
                continue
            trees = _train(
                self._features.matrix(table.take(rows)),
                bandwidth[rows] / _GB,
                table.weight[rows],
                self._options,
            )
            self._sides[side] = trees, float(bandwidth[rows].min() / _GB)
        return self

    def predict(self, questions: SampleTable) -> Forecasts:
        """See `Estimator.predict`."""
        small = questions.size_bytes <= MTU_BYTES
        bandwidth = np.full(len(questions), np.nan)
        for side, (trees, least) in self._sides.items():
            rows = small == side
            if not rows.any():
                continue
            raw = np.asarray(trees.predict(self._features.matrix(questions.take(rows))))
            self.floored += int(np.sum(raw <= 0))
            bandwidth[rows] = np.where(raw > 0, raw, least)
        return _forecasts(questions, np.log(bandwidth * _GB))


_GB = 1e9


def bus_bytes(table: SampleTable) -> FloatArray:
    """Returns (P,) bus bytes `2 s (n−1) / n`."""
    return bus_bytes_of(table.size_bytes, table.world_size)


def bus_bandwidth(table: SampleTable) -> FloatArray:
    """Returns (P,) measured bus bandwidth, bytes per second."""
    return bus_bytes(table) / table.time_s


def _forecasts(questions: SampleTable, log_bandwidth: FloatArray) -> Forecasts:
    rows = len(questions)
    return Forecasts(
        np.log(bus_bytes(questions)) - log_bandwidth,
        np.full(rows, np.nan),
        np.full(rows, int(Origin.OUTSIDE)),
    )


def _train(
    matrix: xgboost.DMatrix, label: FloatArray, weight: FloatArray, options: BoostingOptions
) -> xgboost.Booster:
    matrix.set_label(label)
    matrix.set_weight(weight)
    # The loss's default start is half a unit away from any sensible one: start at the mean.
    start = {"base_score": float(np.average(label, weights=weight))}
    return xgboost.train(options.parameters() | start, matrix, num_boost_round=options.rounds)


class _Features:
    """Samples → the matrix that the trees see; categories that were never seen count as missing."""

    def __init__(self, types: Mapping[str, InstanceType]) -> None:
        self._types = types
        self.codes: dict[str, dict[str, int]] = {}

    def fit(self, table: SampleTable) -> None:
        self.codes = {}
        for name, values in self._categories(table).items():
            known = sorted(set(values) - {""})
            self.codes[name] = {value: code for code, value in enumerate(known)}

    def matrix(self, table: SampleTable) -> xgboost.DMatrix:
        rated = [self._types.get(curve.instance_type) for curve in table.curves]
        speed = np.array([np.nan if kind is None else kind.rated_gbit_per_s for kind in rated])
        columns = [
            np.log2(table.size_bytes),
            np.log2(table.world_size),
            np.log2(table.vms),
            np.log2(table.world_size / table.vms),
            table.concurrent.astype(np.float64),
            speed[table.curve] if len(speed) else np.empty(0),
        ]
        for name, values in self._categories(table).items():
            codes = self.codes[name]
            columns.append(np.array([codes.get(value, np.nan) for value in values], dtype=float))
        return xgboost.DMatrix(
            np.stack(columns, axis=1),
            feature_names=[*_NUMBERS, *_CATEGORIES],
            feature_types=["float"] * len(_NUMBERS) + ["c"] * len(_CATEGORIES),
            enable_categorical=True,
            nthread=THREADS,
        )

    def _categories(self, table: SampleTable) -> dict[str, list[str]]:
        kinds = [self._types.get(curve.instance_type) for curve in table.curves]
        curves = [
            {
                "instance_type": curve.instance_type,
                "cpu_vendor": (kind.cpu_vendor if kind else None) or "",
                "transport": curve.transport,
                "library_version": curve.library_version,
                "config": curve.config,
            }
            for curve, kind in zip(table.curves, kinds, strict=True)
        ]
        places = [place._asdict() for place in table.places]
        return {
            name: (
                [curves[c][name] for c in table.curve]
                if curves and name in curves[0]
                else [places[p][name] for p in table.place]
            )
            for name in _CATEGORIES
        }
