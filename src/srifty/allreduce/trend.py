"""The trend of one curve: a latency that grows with the depth of a tree, and a bandwidth.

    T = α0 + α1 log2 V + α2 log2 g + w / β        w = 2 s (n−1) / n

with V VMs of g ranks each (n = V g). Latency grows with the depth of a tree because NCCL sends
small messages along one since 2.4. Where V or g is the same in all points, its term cannot be told
from α0 and is left out; of one world alone, the latency is taken to grow with log2 n. The fit
minimises the relative error; no coefficient is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from srifty.allreduce.table import Points, bus_bytes_of

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
        one_world = len(points.worlds()) == 1
        if one_world:
            design[:, 1] += design[:, 2]  # log2 V + log2 g = log2 n
            terms = [1, 3]
        else:
            terms = [0, *(t for t in (1, 2) if np.ptp(design[:, t]) > 0), 3]
        scaled = design[:, terms] / time_s[:, None]
        found = optimize.nnls(scaled, np.ones(len(time_s)))[0]  # pyright: ignore[reportUnknownVariableType]
        coefficients = np.zeros(4)
        coefficients[terms] = np.asarray(found, dtype=np.float64)
        if one_world:
            coefficients[2] = coefficients[1]
        return cls(tuple(coefficients.tolist()))

    def log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> FloatArray:
        """Returns (P,) log seconds."""
        design = _design(world_size, vms, size_bytes)
        return np.log(np.maximum(design @ np.array(self.coefficients), _LEAST_S))

    def least_log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray, most_per_vm: int
    ) -> FloatArray:
        """Returns (R, S) log seconds that no world of at least so many ranks and VMs undercuts.

        `log2 V` is at least that of the VMs, and `log2 V + log2 g = log2 n` at least that of the
        ranks: what is missing goes to the smaller coefficient.

        Args:
            world_size: (R,) ranks at least.
            vms: (R,) VMs at least.
            size_bytes: (S,) sizes.
            most_per_vm: worlds have no more ranks than so many times their VMs.
        """
        vms = np.maximum(vms, world_size / most_per_vm)
        fixed, of_vms, of_ranks, per_byte = self.coefficients
        ranks = np.log2(world_size / vms)
        latency = fixed + of_vms * np.log2(vms) + min(of_vms, of_ranks) * ranks
        transfer = bus_bytes_of(size_bytes[None, :], world_size[:, None]) * per_byte
        return np.log(np.maximum(latency[:, None] + transfer, _LEAST_S))


def _design(world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray) -> FloatArray:
    ranks_per_vm = world_size / vms
    bus_bytes = bus_bytes_of(size_bytes, world_size)
    return np.stack(
        [np.ones_like(bus_bytes), np.log2(vms), np.log2(ranks_per_vm), bus_bytes], axis=1
    )
