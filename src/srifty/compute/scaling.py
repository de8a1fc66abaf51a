"""A measured profile carried to a GPU that nobody measured, by the published peak rates of both.

Marked `estimated`, with a wide interval; `docs/estimates.md` has the errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from srifty.compute.intervals import scaled_fraction
from srifty.compute.memory import scale_max_batch
from srifty.compute.peaks import precision_on
from srifty.compute.speed import SpeedModel, distance
from srifty.core._checks import require
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    WorkloadProfile,
)

NEARNESS = 0.3
"""Added to the distance of a measured GPU before nearer ones are weighed more (`estimate_profile`).

Without it one GPU of the target's own rates would silence all others.
"""

HOST_BOUND_EXPONENT = 0.3
"""A step that grows more slowly than this power of the batch is the host's or the input's."""


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


def is_host_bound(profile: WorkloadProfile) -> bool:
    """Whether a step hardly grows with the batch: the host or the input rules, not the GPU.

    No figure of a GPU says how such a step changes on another machine. Told only from batches at
    least 8 times apart.
    """
    first, last = profile.latencies[0], profile.latencies[-1]
    octaves = np.log(last.batch / first.batch)
    growth = np.log(last.step_s / first.step_s)
    return bool(octaves >= np.log(8) and growth < HOST_BOUND_EXPONENT * octaves)


def scale_profile(
    profile: WorkloadProfile,
    measured_on: GpuModel,
    target: GpuModel,
    *,
    speed: SpeedModel | None = None,
    interval_fraction: float | None = None,
    max_batch: int | None = None,
) -> WorkloadProfile:
    """Returns a measured profile carried to a GPU without measurements.

    `t_target(B) = c + r (t_measured(B) - c)`: the launch part c (`launch_time_s`) belongs to the
    host and stays, the computing part grows by `SpeedModel.ratio`. The optimizer step moves memory
    only and grows by the ratio of the bandwidths.

    Args:
        profile: the measured profile.
        measured_on: the GPU that it was measured on.
        target: the GPU to estimate.
        speed: the paces of GPUs; by default as fitted on public curves.
        interval_fraction: half width of the 90 % interval, as a fraction of the latency; by
            default it grows with the distance between the GPUs (`scaled_fraction`).
        max_batch: largest micro-batch on the target; by default scaled with the memory.

    Raises:
        InputError: `measured_on` is not the profile's GPU, or an argument is out of range.
    """
    return estimate_profile(
        [profile],
        {measured_on.name: measured_on},
        target,
        speed=speed,
        interval_fraction=interval_fraction,
        max_batch=max_batch,
    )


def estimate_profile(
    profiles: Sequence[WorkloadProfile],
    gpus: Mapping[str, GpuModel],
    target: GpuModel,
    *,
    speed: SpeedModel | None = None,
    interval_fraction: float | None = None,
    max_batch: int | None = None,
) -> WorkloadProfile:
    """Returns a profile for `target` from one or several measured GPUs.

    Each curve is scaled as in `scale_profile`; the estimate is their geometric mean, nearer GPUs
    weighing more (`1 / (distance + NEARNESS)^2`), over the range of batches that all of them cover
    (between measured batches they are interpolated). Where no batch lies in all of them, the curve
    of the nearest GPU is taken alone.

    Args:
        profiles: measured profiles of one workload; the first gives gradients and layers.
        gpus: the GPU models that the profiles name.
        target: the GPU to estimate.
        speed: the paces of GPUs; by default as fitted on public curves.
        interval_fraction: see `scale_profile`.
        max_batch: largest micro-batch on the target; by default scaled with the memory from the
            first profile, down to a power of two.

    Raises:
        InputError: no profile, several workloads, a GPU that `gpus` lacks, or no room for a single
            sample.
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
    pace = speed or SpeedModel()
    profiles = comparable_profiles(profiles, gpus, target)
    batches = _common_batches(profiles)
    apart = np.array([distance(gpus[p.gpu], target, p.precision) for p in profiles])
    if interval_fraction is None:
        interval_fraction = scaled_fraction(float(apart.min()), different_gpus(profiles, gpus))
    curves = [
        _scaled_curve(profile, gpus[profile.gpu], target, batches, pace) for profile in profiles
    ]
    mean = np.exp(
        np.average([np.log(curve) for curve in curves], axis=0, weights=(apart + NEARNESS) ** -2)
    )
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
            f"peak rates (operations to the power {pace.flops:.2g}, memory bandwidth to the power "
            f"{pace.bandwidth:.2g}); true latencies are expected within {interval_fraction:.0%} in "
            "9 cases of 10, as far as public curves tell",
        ),
    )


def comparable_profiles(
    profiles: Sequence[WorkloadProfile], gpus: Mapping[str, GpuModel], target: GpuModel
) -> Sequence[WorkloadProfile]:
    """Returns the profiles that share a range of batches; else the one of the nearest GPU."""
    if _common_batches(profiles):
        return profiles
    return [min(profiles, key=lambda p: distance(gpus[p.gpu], target, p.precision))]


def different_gpus(profiles: Sequence[WorkloadProfile], gpus: Mapping[str, GpuModel]) -> int:
    """Returns how many of the profiles' GPUs differ in more than their memory's size."""
    models = [gpus[profile.gpu] for profile in profiles]
    return len({(model.architecture, model.memory_bytes_per_s) for model in models})


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
    pace: SpeedModel,
) -> np.ndarray:
    """One column per part of a step: forward, backward, optimizer; or the whole step alone."""
    ratio = pace.ratio(measured_on, target, profile.precision)
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
