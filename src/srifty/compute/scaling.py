"""A measured profile carried to a GPU that nobody measured, by the published peak rates of both.

Marked `estimated`, with a wide interval; `docs/samples.md` has the errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from srifty.compute.memory import (
    scale_max_batch,
)
from srifty.compute.peaks import peak_flops, precision_on
from srifty.core._checks import require
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    WorkloadProfile,
)
from srifty.errors import InputError

BANDWIDTH_WEIGHT = 0.75
"""Share of the memory bandwidth in the ratio between two GPUs; `docs/samples.md` has the errors."""

SCALED_INTERVAL_FRACTION = 0.5
"""Half width of the 90 % interval of a scaled curve: 30 % covers too little (`docs/samples.md`)."""


def speed_ratio(
    measured_on: GpuModel,
    target: GpuModel,
    precision: str,
    *,
    bandwidth_weight: float = BANDWIDTH_WEIGHT,
) -> float:
    """Returns how many times longer the computing part of a step takes on `target`.

    `(F_m / F_t)^(1-w) (W_m / W_t)^w` with the peak operations F and memory bandwidths W of the
    measured GPU and the target: w = 0 is a workload bound by arithmetic, w = 1 one bound by memory.

    Args:
        measured_on: the GPU that was measured.
        target: the GPU without measurements.
        precision: the precision of the measurement; a GPU that does not speed it up is taken at
            its fp32 rate, `unknown` at fp32 on both.
        bandwidth_weight: w.

    Raises:
        InputError: `bandwidth_weight` lies outside [0, 1].
    """
    require(
        0.0 <= bandwidth_weight <= 1.0,
        f"bandwidth_weight must lie between 0 and 1, not {bandwidth_weight!r}",
    )
    flops = peak_flops(measured_on, precision) / peak_flops(target, precision)
    bandwidth = measured_on.memory_bytes_per_s / target.memory_bytes_per_s
    return flops ** (1.0 - bandwidth_weight) * bandwidth**bandwidth_weight


def launch_time_s(batches: Sequence[float], times_s: Sequence[float]) -> float:
    """Returns the part of a step that does not grow with the batch.

    It is the intercept of the line that fits the curve best by relative error, never below zero
    and never above 90 % of the shortest time. One point alone has none.
    """
    if len(batches) < 2:
        return 0.0
    batch = np.asarray(batches, dtype=float)
    time_s = np.asarray(times_s, dtype=float)
    design = np.column_stack((np.ones_like(batch), batch)) / time_s[:, None]
    solution = np.linalg.lstsq(design, np.ones_like(batch), rcond=None)[0]
    return float(min(max(solution[0], 0.0), 0.9 * time_s.min()))


def scale_profile(
    profile: WorkloadProfile,
    measured_on: GpuModel,
    target: GpuModel,
    *,
    bandwidth_weight: float = BANDWIDTH_WEIGHT,
    interval_fraction: float = SCALED_INTERVAL_FRACTION,
    max_batch: int | None = None,
) -> WorkloadProfile:
    """Returns a measured profile carried to a GPU without measurements.

    `t_target(B) = c + r (t_measured(B) - c)`: the launch part c (`launch_time_s`) belongs to the
    host and stays, the computing part grows by `speed_ratio`. The optimizer step moves memory
    only and grows by the ratio of the bandwidths.

    Args:
        profile: the measured profile.
        measured_on: the GPU that it was measured on.
        target: the GPU to estimate.
        bandwidth_weight: see `speed_ratio`.
        interval_fraction: half width of the 90 % interval, as a fraction of the latency.
        max_batch: largest micro-batch on the target; by default scaled with the memory.

    Raises:
        InputError: `measured_on` is not the profile's GPU, or an argument is out of range.
    """
    return estimate_profile(
        [profile],
        {measured_on.name: measured_on},
        target,
        bandwidth_weight=bandwidth_weight,
        interval_fraction=interval_fraction,
        max_batch=max_batch,
    )


def estimate_profile(
    profiles: Sequence[WorkloadProfile],
    gpus: Mapping[str, GpuModel],
    target: GpuModel,
    *,
    bandwidth_weight: float = BANDWIDTH_WEIGHT,
    interval_fraction: float = SCALED_INTERVAL_FRACTION,
    max_batch: int | None = None,
) -> WorkloadProfile:
    """Returns a profile for `target` from one or several measured GPUs.

    Each curve is scaled as in `scale_profile`; the estimate is their geometric mean, over the
    range of batches that all of them cover (between measured batches they are interpolated).

    Args:
        profiles: measured profiles of one workload; the first gives gradients and layers.
        gpus: the GPU models that the profiles name.
        target: the GPU to estimate.
        bandwidth_weight: see `speed_ratio`.
        interval_fraction: half width of the 90 % interval, as a fraction of the latency.
        max_batch: largest micro-batch on the target; by default scaled with the memory from the
            first profile, down to a power of two.

    Raises:
        InputError: no profile, several workloads, a GPU that `gpus` lacks, no batch that all
            curves cover, or no room for a single sample.
    """
    require(bool(profiles), "estimate_profile needs at least one measured profile")
    first = profiles[0]
    names = {profile.workload for profile in profiles}
    require(len(names) == 1, f"the profiles belong to several workloads: {sorted(names)}")
    for profile in profiles:
        require(
            profile.gpu in gpus,
            f"no GPU model for {profile.gpu!r}; give one of that name in `gpus`",
        )
    batches = _common_batches(profiles)
    curves = [
        _scaled_curve(profile, gpus[profile.gpu], target, batches, bandwidth_weight)
        for profile in profiles
    ]
    mean = np.exp(np.mean([np.log(curve) for curve in curves], axis=0))
    latencies = tuple(
        _latency(batch, row, split=first.is_split) for batch, row in zip(batches, mean, strict=True)
    )
    if max_batch is None:
        parameters = _parameters(first)
        max_batch = scale_max_batch(
            first.max_batch,
            parameters,
            memory_bytes=gpus[first.gpu].memory_bytes,
            target_memory_bytes=target.memory_bytes,
        )
        require(
            max_batch >= first.min_batch,
            f"{first.workload} does not fit in the memory of {target.name}",
        )
    sources = ", ".join(profile.gpu for profile in profiles)
    return replace(
        first,
        gpu=target.name,
        precision=precision_on(target, first.precision),
        latencies=latencies,
        max_batch=max_batch,
        max_batch_evidence="estimated",
        spatial_std_fraction=None,
        estimated=True,
        interval_fraction=interval_fraction,
        peak_memory_bytes={},
        source=f"estimated by Srifty's roofline from {sources}; measured there: {first.source}",
        notes=(
            f"ESTIMATED, not measured on {target.name}: curves of {sources} scaled by published "
            f"peak rates ({1 - bandwidth_weight:.0%} arithmetic, {bandwidth_weight:.0%} memory "
            f"bandwidth); true latencies are expected within {interval_fraction:.0%} in 9 cases "
            "of 10, as far as T4, P100 and V100 tell",
        ),
    )


def _parameters(profile: WorkloadProfile) -> int:
    if profile.gradients is not None:
        return profile.gradients.total_bytes // 4
    return sum(layer.parameters for layer in profile.layers)


def _common_batches(profiles: Sequence[WorkloadProfile]) -> list[int]:
    lowest = max(profile.latencies[0].batch for profile in profiles)
    highest = min(profile.latencies[-1].batch for profile in profiles)
    batches = sorted(
        {
            latency.batch
            for profile in profiles
            for latency in profile.latencies
            if lowest <= latency.batch <= highest
        }
    )
    if not batches:
        raise InputError("the curves of the measured GPUs have no batch size in common")
    split = {profile.is_split for profile in profiles}
    require(
        len(split) == 1,
        "some profiles are split into forward and backward and some are not; use one kind",
    )
    return batches


def _scaled_curve(
    profile: WorkloadProfile,
    measured_on: GpuModel,
    target: GpuModel,
    batches: Sequence[int],
    bandwidth_weight: float,
) -> np.ndarray:
    """One row per batch: forward, backward, optimizer; or the whole step alone."""
    ratio = speed_ratio(measured_on, target, profile.precision, bandwidth_weight=bandwidth_weight)
    known = [latency.batch for latency in profile.latencies]
    columns: list[np.ndarray] = []
    for times_s in _parts(profile):
        launch_s = launch_time_s(known, times_s)
        scaled = launch_s + ratio * (np.asarray(times_s) - launch_s)
        columns.append(np.interp(batches, known, scaled))
    if profile.is_split:
        optimizer_s = np.array([latency.optimizer_s or 0.0 for latency in profile.latencies])
        bandwidth = measured_on.memory_bytes_per_s / target.memory_bytes_per_s
        # A zero (never measured) would end the geometric mean.
        columns.append(np.interp(batches, known, np.maximum(bandwidth * optimizer_s, 1e-9)))
    return np.column_stack(columns)


def _parts(profile: WorkloadProfile) -> list[list[float]]:
    if profile.is_split:
        return [
            [latency.forward_s or 0.0 for latency in profile.latencies],
            [latency.backward_s or 0.0 for latency in profile.latencies],
        ]
    return [[latency.step_s for latency in profile.latencies]]


def _latency(batch: int, row: np.ndarray, *, split: bool) -> BatchLatency:
    if not split:
        return BatchLatency(batch=batch, iteration_s=float(row[0]))
    return BatchLatency(
        batch=batch,
        forward_s=float(row[0]),
        backward_s=float(row[1]),
        optimizer_s=float(row[2]),
    )
