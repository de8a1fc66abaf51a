"""The efficiencies that make the roofline of layer tables meet measured curves best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize  # pyright: ignore[reportUnknownVariableType]

from srifty.compute.roofline import Efficiency, LayerColumns
from srifty.core._checks import require
from srifty.core.hardware import GpuModel
from srifty.core.work import StepWork

# Shares that convolutions and matrix products are known to reach, and by what factor they vary.
_PRIOR = np.log([0.55, 0.8, 80e-6, 0.3])
_PRIOR_STD = np.array([0.4, 0.3, 0.7, 0.4])
# Usual error of a curve; those far beyond are other programs rather than other efficiencies.
_USUAL = 0.25


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """A measured curve of a workload whose layers are known.

    Attributes:
        work: its layers.
        gpu: the GPU that it was measured on.
        precision: the precision that it ran.
        steps: batch sizes and seconds per step.
    """

    work: StepWork
    gpu: GpuModel
    precision: str
    steps: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        require(bool(self.steps), f"{self.work.workload} on {self.gpu.name} has no steps")


def fit_efficiency(measured: Sequence[MeasuredSteps]) -> Efficiency:
    """Returns the likeliest efficiencies: relative errors with long tails (Cauchy), and a prior.

    Every curve counts once; without any, the prior's shares come back.

    Args:
        measured: curves of workloads whose layers are known.
    """
    curves = [
        (
            LayerColumns.of(m.work.layers, m.gpu, m.precision, fast_layers=m.work.fast_layers),
            m.work.backward_ratio,
            [batch for batch, _ in m.steps],
            np.log([time_s for _, time_s in m.steps]),
        )
        for m in measured
    ]

    def cost(logs: np.ndarray) -> float:
        efficiency = _efficiency(logs)
        total = 0.5 * float((((logs - _PRIOR) / _PRIOR_STD) ** 2).sum())
        for columns, ratio, batches, known in curves:
            error = np.log(columns.steps_s(batches, efficiency, ratio)) - known
            total += float(np.log1p((error / _USUAL) ** 2).mean())
        return total

    found = cast("Any", minimize(cost, _PRIOR, method="L-BFGS-B"))
    return _efficiency(found.x)


def _efficiency(logs: np.ndarray) -> Efficiency:
    flops, bandwidth, launch_s, tensor_flops = (float(value) for value in np.exp(logs))
    return Efficiency(flops, bandwidth, launch_s, tensor_flops)
