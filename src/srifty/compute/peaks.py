"""Published peak rates of a GPU, by precision."""

from __future__ import annotations

from srifty.core.hardware import GpuModel

_REDUCED_PRECISIONS = ("fp16", "bf16", "tf32")


def peak_flops(gpu: GpuModel, precision: str) -> float:
    """Returns operations per second at a precision; fp32's where the GPU has no such units."""
    return gpu.peak_flops.get(precision_on(gpu, precision), gpu.peak_flops["fp32"])


def precision_on(gpu: GpuModel, precision: str) -> str:
    """The precision that really runs: GPUs without the fast units fall back to fp32."""
    if precision in _REDUCED_PRECISIONS and precision not in gpu.peak_flops:
        return "fp32"
    return precision
