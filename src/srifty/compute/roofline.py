"""Latencies of GPUs that nobody measured: scaled from measured ones, or counted from layers.

Two ways, both marked `estimated` and both with a wide interval:

* `scale_profile` and `estimate_profile` carry a measured curve to another GPU by the published
  peak rates of the two;
* `profile_from_layers` counts each layer's work and memory traffic and takes the slower of the two.

`estimate_max_batch` and `scale_max_batch` say how many samples a GPU's memory holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    GradientSchedule,
    Layer,
    WorkloadProfile,
)
from srifty.errors import InputError
from srifty.units import GIB

BANDWIDTH_WEIGHT = 0.75
"""Share of the memory bandwidth in the ratio between two GPUs; `docs/samples.md` has the errors."""

SCALED_INTERVAL_FRACTION = 0.5
"""Half width of the 90 % interval of a scaled curve: 30 % covers too little (`docs/samples.md`)."""

LAYERS_INTERVAL_FRACTION = 0.4
"""Half width of the 90 % interval of a curve counted from layers (`docs/samples.md`)."""

FAST_CONVOLUTION_SAVING = 2.25
"""How many times fewer operations Winograd's F(2x2, 3x3) needs (Lavin and Gray 2016, sec. 4.1)."""

BYTES_PER_PARAMETER = 16.0
"""Weight, gradient and two moments of Adam at 4 bytes each; SGD with momentum needs 12."""

CONTEXT_BYTES = round(0.8 * GIB)
"""Memory that the CUDA context and the libraries hold before the first tensor."""

ACTIVATION_FACTOR = 1.3
"""Memory per sample over the bytes that its layers write: temporaries, workspaces, fragments."""

_REDUCED_PRECISIONS = ("fp16", "bf16", "tf32")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What share of a GPU's published rates a training step reaches.

    Attributes:
        flops: share of the peak operations per second in layers that compute.
        bandwidth: share of the peak memory bandwidth in layers that move data.
        launch_s: seconds that one layer costs at least per pass (kernel launches, the host).
    """

    flops: float = 0.55
    bandwidth: float = 0.8
    launch_s: float = 80e-6

    def __post_init__(self) -> None:
        require_positive("flops", self.flops)
        require_positive("bandwidth", self.bandwidth)
        require_not_negative("launch_s", self.launch_s)


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
    flops = _peak_flops(measured_on, precision) / _peak_flops(target, precision)
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
        precision=_precision_on(target, first.precision),
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


def profile_from_layers(
    workload: str,
    layers: Sequence[Layer],
    gradients: GradientSchedule | None,
    gpu: GpuModel,
    *,
    precision: str = "fp32",
    batches: Sequence[int] | None = None,
    max_batch: int | None = None,
    efficiency: Efficiency | None = None,
    fast_layers: Collection[str] = (),
    interval_fraction: float = LAYERS_INTERVAL_FRACTION,
    source: str = "estimated by Srifty's roofline from a layer table",
) -> WorkloadProfile:
    """Returns a profile counted from the layers' work.

    Per layer, forward: `max(F B / (e_f P), V B / (e_w W)) + l` with the layer's operations F and
    traffic V (what it writes is read once: twice its bytes), the GPU's peak rates P and W, the
    efficiencies e_f and e_w, and the launch time l. Backward is twice that plus one write and one
    read of the layer's gradient; the optimizer moves five times the parameters' bytes.

    Args:
        workload: the workload's name.
        layers: work per sample of each layer.
        gradients: the gradient exchange; None where unknown.
        gpu: the GPU to estimate.
        precision: the precision to estimate for.
        batches: batch sizes of the curve; by default powers of two up to `max_batch`.
        max_batch: largest micro-batch; by default from `estimate_max_batch`.
        efficiency: shares of the peak rates that are reached.
        fast_layers: names of the 3x3 convolutions that libraries compute in
            `FAST_CONVOLUTION_SAVING` times fewer operations (fp32 only).
        interval_fraction: half width of the 90 % interval, as a fraction of the latency.
        source: where the layer table comes from.

    Raises:
        InputError: no layers, no room for a single sample, or an argument is out of range.
    """
    require(bool(layers), "profile_from_layers needs at least one layer")
    reached = efficiency or Efficiency()
    if max_batch is None:
        max_batch = estimate_max_batch(layers, gpu.memory_bytes)
        require(max_batch >= 1, f"{workload} does not fit in the memory of {gpu.name}")
    if batches is None:
        batches = [2**power for power in range(max_batch.bit_length()) if 2**power <= max_batch]
    latencies: list[BatchLatency] = []
    for batch in batches:
        forward_s, backward_s = layer_times_s(
            layers, gpu, batch, precision, reached, fast_layers=fast_layers
        )
        latencies.append(
            BatchLatency(
                batch=batch,
                forward_s=float(forward_s.sum()),
                backward_s=float(backward_s.sum()),
                optimizer_s=_optimizer_s(layers, gpu, reached),
            )
        )
    return WorkloadProfile(
        workload=workload,
        gpu=gpu.name,
        latencies=tuple(latencies),
        max_batch=max_batch,
        gradients=gradients,
        precision=precision,
        max_batch_evidence="estimated",
        estimated=True,
        interval_fraction=interval_fraction,
        layers=tuple(layers),
        source=source,
        notes=(
            f"ESTIMATED, not measured: counted from a layer table at {reached.flops:.0%} of "
            f"{gpu.name}'s peak operations and {reached.bandwidth:.0%} of its memory bandwidth, "
            f"{reached.launch_s * 1e6:.0f} us per layer and pass; true latencies are expected "
            f"within {interval_fraction:.0%} in 9 cases of 10, as far as T4, P100 and V100 tell",
        ),
    )


def layer_times_s(
    layers: Sequence[Layer],
    gpu: GpuModel,
    batch: int,
    precision: str = "fp32",
    efficiency: Efficiency | None = None,
    *,
    fast_layers: Collection[str] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the forward and the backward time of each layer, seconds (see `profile_from_layers`).

    Raises:
        InputError: `batch` is below 1.
    """
    require_count("batch", batch)
    reached = efficiency or Efficiency()
    saving = FAST_CONVOLUTION_SAVING if precision == "fp32" else 1.0
    flops = np.array(
        [layer.flops / (saving if layer.name in fast_layers else 1.0) for layer in layers]
    )
    written_bytes = np.array([layer.bytes for layer in layers])
    gradient_bytes = 4.0 * np.array([layer.parameters for layer in layers])
    bytes_per_s = reached.bandwidth * gpu.memory_bytes_per_s
    compute_s = batch * flops / (reached.flops * _peak_flops(gpu, precision))
    memory_s = batch * 2.0 * written_bytes / bytes_per_s
    work_s = np.maximum(compute_s, memory_s)
    forward_s = work_s + reached.launch_s
    backward_s = 2.0 * forward_s + 2.0 * gradient_bytes / bytes_per_s
    return forward_s, backward_s


def estimate_max_batch(
    layers: Sequence[Layer],
    memory_bytes: float,
    *,
    bytes_per_parameter: float = BYTES_PER_PARAMETER,
    context_bytes: float = CONTEXT_BYTES,
    activation_factor: float = ACTIVATION_FACTOR,
    largest: int = 65536,
) -> int:
    """Returns the largest power of two of samples that a GPU's memory holds; 0 where none fits.

    Fixed part: parameters x `bytes_per_parameter` + the context. Each sample: the bytes that the
    layers write x `activation_factor`.

    Args:
        layers: work per sample of each layer.
        memory_bytes: memory of the GPU.
        bytes_per_parameter: weights, gradients and the optimizer's state.
        context_bytes: memory that is never free.
        activation_factor: memory per sample over bytes written.
        largest: where to stop for models with next to no activations.

    Raises:
        InputError: an argument is not above zero.
    """
    require_positive("memory_bytes", memory_bytes)
    require_positive("activation_factor", activation_factor)
    fixed_bytes = bytes_per_parameter * sum(layer.parameters for layer in layers) + context_bytes
    sample_bytes = activation_factor * sum(layer.bytes for layer in layers)
    return _power_of_two_below((memory_bytes - fixed_bytes) / sample_bytes, largest)


def scale_max_batch(
    max_batch: int,
    parameters: int,
    *,
    memory_bytes: float,
    target_memory_bytes: float,
    bytes_per_parameter: float = BYTES_PER_PARAMETER,
    context_bytes: float = CONTEXT_BYTES,
) -> int:
    """Returns how many samples another memory holds, given that `max_batch` filled `memory_bytes`.

    The memory per sample follows from the known maximum (`estimate_max_batch`'s fixed part taken
    off); the answer is a power of two, or 0 where not even one sample fits.

    Raises:
        InputError: an argument is out of range, or the fixed part already fills `memory_bytes`.
    """
    require_count("max_batch", max_batch)
    require_positive("target_memory_bytes", target_memory_bytes)
    fixed_bytes = bytes_per_parameter * parameters + context_bytes
    require(
        memory_bytes > fixed_bytes,
        f"{parameters} parameters alone fill {memory_bytes:.0f} bytes, yet max_batch is "
        f"{max_batch}; give a smaller bytes_per_parameter",
    )
    sample_bytes = (memory_bytes - fixed_bytes) / max_batch
    return _power_of_two_below((target_memory_bytes - fixed_bytes) / sample_bytes, max_batch)


def _power_of_two_below(samples: float, largest: int) -> int:
    if samples < 1:
        return 0
    return 2 ** math.floor(math.log2(min(samples, largest)))


def _peak_flops(gpu: GpuModel, precision: str) -> float:
    return gpu.peak_flops.get(_precision_on(gpu, precision), gpu.peak_flops["fp32"])


def _precision_on(gpu: GpuModel, precision: str) -> str:
    """The precision that really runs: GPUs without the fast units fall back to fp32."""
    if precision in _REDUCED_PRECISIONS and precision not in gpu.peak_flops:
        return "fp32"
    return precision


def _optimizer_s(layers: Sequence[Layer], gpu: GpuModel, reached: Efficiency) -> float:
    parameter_bytes = 4.0 * sum(layer.parameters for layer in layers)
    return 5.0 * parameter_bytes / (reached.bandwidth * gpu.memory_bytes_per_s)


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
