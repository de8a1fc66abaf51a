"""How far forecasts of iteration times are off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IterationScores:
    """Errors of forecasts, as fractions of the measured time.

    Attributes:
        rows: number of forecasts.
        mape: mean absolute error.
        median: median absolute error.
        underestimated_share: share of rows whose forecast is below the measured time.
        underestimation_p90: nine of ten underestimates are off by at most this; 0 without any.
        p90_coverage: share of rows whose measured time is at most the forecast's P90.
    """

    rows: int
    mape: float
    median: float
    underestimated_share: float
    underestimation_p90: float
    p90_coverage: float

    @classmethod
    def of(cls, measured_s: FloatArray, mean_s: FloatArray, p90_s: FloatArray) -> Self:
        """Returns the scores of forecasts.

        Args:
            measured_s: (R,) what was measured; R is at least 1.
            mean_s: (R,) what was forecast.
            p90_s: (R,) what was forecast to hold nine times of ten.
        """
        error = mean_s / measured_s - 1
        below = error < 0
        return cls(
            rows=len(error),
            mape=float(np.abs(error).mean()),
            median=float(np.median(np.abs(error))),
            underestimated_share=float(below.mean()),
            underestimation_p90=float(np.quantile(-error[below], 0.9)) if below.any() else 0.0,
            p90_coverage=float((measured_s <= p90_s).mean()),
        )
