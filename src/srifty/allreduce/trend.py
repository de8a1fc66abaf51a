"""The trend of one curve: a latency that grows with the depth of a tree, and a bandwidth.

    T = α0 + α1 log2 V + α2 log2 g + w / β        w = 2 s (n−1) / n

with V VMs of g ranks each (n = V g). Latency grows with the depth of a tree because NCCL sends
small messages along one since 2.4. The fit minimises the relative error; no coefficient is below 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from srifty.allreduce.table import Points

FloatArray = NDArray[np.float64]

# Stands for the latency (or the bandwidth) where no size shows it; the times stay positive.
_LEAST_S = 1e-9


@dataclass(frozen=True)
class Trend:
    """The fitted trend.

    Attributes:
        coefficients: α0, α1, α2 in seconds, and 1/β in seconds per bus byte.
    """

    coefficients: tuple[float, ...]

    @classmethod
    def fit(cls, points: Points) -> Trend:
        """Returns the non-negative trend of least relative error."""
        time_s = np.exp(points.log_time)
        design = _design(points.world_size, points.vms, points.size_bytes)
        found = optimize.nnls(design / time_s[:, None], np.ones(len(time_s)))[0]  # pyright: ignore[reportUnknownVariableType]
        return cls(tuple(np.asarray(found, dtype=np.float64).tolist()))

    def log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> FloatArray:
        """Returns (P,) log seconds."""
        design = _design(world_size, vms, size_bytes)
        return np.log(np.maximum(design @ np.array(self.coefficients), _LEAST_S))


def _design(world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray) -> FloatArray:
    ranks_per_vm = world_size / vms
    bus_bytes = 2 * size_bytes * (world_size - 1) / world_size
    return np.stack(
        [np.ones_like(bus_bytes), np.log2(vms), np.log2(ranks_per_vm), bus_bytes], axis=1
    )
