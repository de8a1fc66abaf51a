"""Batch latency `t(B)` of one GPU as a continuous piecewise-linear function of the batch size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from srifty.compute.probes import Floats, Probes, check_points

# With one probe nothing is known about the fixed part; this share of the probed latency is taken
# to be constant, the rest proportional to the batch.
SINGLE_PROBE_CONSTANT_SHARE = 0.3
# Extrapolated towards batch 0, latency never falls below this share of the first knot's: some
# launch cost always remains, even where the measured part is steeper than proportional.
FLOOR_SHARE = 0.1


@dataclass(frozen=True)
class PiecewiseLinear:
    """A positive, continuous, piecewise-linear latency curve.

    Attributes:
        knots: batch sizes at which the slope may change; positive, strictly ascending.
        latencies_s: latency at each knot in seconds; positive.
        left_slope_s: seconds per sample below the first knot; leaves a positive intercept.
        right_slope_s: seconds per sample above the last knot; not negative.
    """

    knots: tuple[float, ...]
    latencies_s: tuple[float, ...]
    left_slope_s: float
    right_slope_s: float

    def __post_init__(self) -> None:
        check_points(np.asarray(self.knots), np.asarray(self.latencies_s))
        if any(after <= before for before, after in zip(self.knots, self.knots[1:], strict=False)):
            raise ValueError(f"knots must ascend strictly, got {self.knots}; sort and merge them")
        if not 0.0 <= self.left_slope_s < self.latencies_s[0] / self.knots[0]:
            raise ValueError(
                f"left_slope_s must be in [0, latencies_s[0] / knots[0]), got {self.left_slope_s};"
                " a steeper one predicts negative latencies, use PiecewiseLinear.from_points"
            )
        if not 0.0 <= self.right_slope_s < np.inf:
            raise ValueError(
                f"right_slope_s must be finite and >= 0, got {self.right_slope_s};"
                " use PiecewiseLinear.from_points"
            )

    @classmethod
    def from_points(cls, batches: ArrayLike, latencies_s: ArrayLike) -> "PiecewiseLinear":
        """Returns the curve through the points, its end segments extended within safe limits.

        Args:
            batches: batch sizes, positive; any order, repeats are averaged.
            latencies_s: seconds, positive, one per batch size.

        Raises:
            ValueError: lengths differ or are 0, or a value is not positive and finite.
        """
        points = Probes.of(batches, latencies_s)
        batch, latency = points.batch, points.latency_s
        if len(batch) == 1:
            slope = (1.0 - SINGLE_PROBE_CONSTANT_SHARE) * latency[0] / batch[0]
            return cls((float(batch[0]),), (float(latency[0]),), float(slope), float(slope))
        slopes = np.diff(latency) / np.diff(batch)
        steepest = (1.0 - FLOOR_SHARE) * latency[0] / batch[0]
        return cls(
            knots=tuple(batch.tolist()),
            latencies_s=tuple(latency.tolist()),
            left_slope_s=float(np.clip(slopes[0], 0.0, steepest)),
            right_slope_s=max(0.0, float(slopes[-1])),
        )

    @property
    def segments(self) -> int:
        """Number of linear pieces between the first and the last knot (at least 1)."""
        return max(1, len(self.knots) - 1)

    def scaled(self, factor: float) -> "PiecewiseLinear":
        """Returns the curve with every latency multiplied by `factor`.

        Args:
            factor: positive, such as the forward pass's share of a step.

        Raises:
            ValueError: factor is not positive and finite.
        """
        if not 0.0 < factor < np.inf:
            raise ValueError(f"factor must be positive and finite, got {factor}; use e.g. 0.5")
        return PiecewiseLinear(
            knots=self.knots,
            latencies_s=tuple(factor * latency for latency in self.latencies_s),
            left_slope_s=factor * self.left_slope_s,
            right_slope_s=factor * self.right_slope_s,
        )

    def predict(self, batch: ArrayLike) -> Floats:
        """Returns the latency in seconds at each batch size (>= 0), in the shape of `batch`."""
        size = np.asarray(batch, dtype=np.float64)
        latency = np.interp(size, self.knots, self.latencies_s)
        below = np.minimum(size - self.knots[0], 0.0)
        above = np.maximum(size - self.knots[-1], 0.0)
        return np.asarray(latency + self.left_slope_s * below + self.right_slope_s * above)
