"""How much faster one GPU trains than another, by their published peak rates.

`docs/estimates.md` has the errors and the data that the figures were fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srifty.compute.peaks import peak_flops, precision_on
from srifty.core._checks import require
from srifty.core.hardware import GpuModel

# What ratios are expected to be before any is seen, and how far they may stray: most kernels of a
# training step move data rather than compute, and those that compute keep the memory busy too.
_PRIOR = np.array([0.25, 0.75, 0.0])
_PRIOR_STD = 0.14
_NOISE_STD = 0.2
# Errors beyond this many standard deviations pull no harder (Huber).
_OUTLIER = 1.25
_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """A GPU's pace as a product of powers of its published rates.

    The computing part of a step takes `(F_m / F_t)^flops (W_m / W_t)^bandwidth` times as long on
    the target, with the peak operations F and memory bandwidths W of both GPUs, divided by
    `exp(tensor)` where only the target computes on tensor cores (multiplied where only the other
    one does).

    Attributes:
        flops: exponent of the peak operations.
        bandwidth: exponent of the memory bandwidth.
        tensor: logarithm of what tensor cores gain beyond their published rate.
    """

    flops: float = 0.27
    bandwidth: float = 0.62
    tensor: float = 0.23

    def __post_init__(self) -> None:
        for name in ("flops", "bandwidth", "tensor"):
            value: float = getattr(self, name)
            require(math.isfinite(value), f"{name} must be a number, not {value!r}")

    def ratio(self, measured_on: GpuModel, target: GpuModel, precision: str) -> float:
        """Returns how many times longer the computing part of a step takes on `target`.

        Args:
            measured_on: the GPU that was measured.
            target: the GPU without measurements.
            precision: the precision of the measurement; a GPU that does not speed it up is taken
                at its fp32 rate, `unknown` at fp32 on both.
        """
        coefficients = np.array([self.flops, self.bandwidth, self.tensor])
        return float(np.exp(-coefficients @ _advantage(measured_on, target, precision)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload at one batch on two GPUs.

    Attributes:
        measured_on: one GPU.
        target: the other.
        precision: the precision that both ran, as far as they can.
        log_ratio: logarithm of the time on `target` over that on `measured_on`.
        weight: how much it counts.
    """

    measured_on: GpuModel
    target: GpuModel
    precision: str
    log_ratio: float
    weight: float = 1.0


def fit_speed(comparisons: Sequence[Comparison]) -> SpeedModel:
    """Returns the speed model that comparisons support; without any, the prior.

    Ridge regression of the log ratios towards the prior, robust against outliers.

    Args:
        comparisons: measured ratios.
    """
    solution = _PRIOR
    if comparisons:
        rows = -np.array([_advantage(c.measured_on, c.target, c.precision) for c in comparisons])
        known = np.array([c.log_ratio for c in comparisons])
        weight = np.array([c.weight for c in comparisons]) / _NOISE_STD**2
        for _ in range(_ROUNDS):
            strays = np.abs(known - rows @ solution) / (_OUTLIER * _NOISE_STD)
            weighted = rows * (weight / np.maximum(1.0, strays))[:, None]
            normal = weighted.T @ rows + np.eye(len(_PRIOR)) / _PRIOR_STD**2
            solution = _PRIOR + np.linalg.solve(normal, weighted.T @ (known - rows @ _PRIOR))
    flops, bandwidth, tensor = (float(value) for value in solution)
    return SpeedModel(flops, bandwidth, tensor)


def distance(measured_on: GpuModel, target: GpuModel, precision: str) -> float:
    """Returns how far apart two GPUs are: the length of the log ratios of their two rates."""
    flops, bandwidth, _ = _advantage(measured_on, target, precision)
    return math.hypot(flops, bandwidth)


def _advantage(measured_on: GpuModel, target: GpuModel, precision: str) -> np.ndarray:
    """Log ratios of peak operations and bandwidth, and whether tensor cores come or go."""
    return np.array(
        [
            math.log(peak_flops(target, precision) / peak_flops(measured_on, precision)),
            math.log(target.memory_bytes_per_s / measured_on.memory_bytes_per_s),
            float(_on_tensor_cores(target, precision))
            - float(_on_tensor_cores(measured_on, precision)),
        ]
    )


def _on_tensor_cores(gpu: GpuModel, precision: str) -> bool:
    return precision_on(gpu, precision) not in ("fp32", "unknown")
