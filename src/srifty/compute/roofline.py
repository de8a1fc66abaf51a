"""Latencies counted from layers: each takes the longer of its operations and its memory traffic.

Marked `estimated`, with a wide interval; `docs/estimates.md` has the errors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from srifty.compute.intervals import LAYERS_FRACTION
from srifty.compute.memory import estimate_max_batch
from srifty.compute.peaks import peak_flops, precision_on
from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    GradientSchedule,
    Layer,
    WorkloadProfile,
)

FAST_CONVOLUTION_SAVING = 2.25
"""How many times fewer operations Winograd's F(2x2, 3x3) needs (Lavin and Gray 2016, sec. 4.1)."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What share of a GPU's published rates a training step reaches.

    Attributes:
        flops: share of the peak operations per second in layers that compute.
        bandwidth: share of the peak memory bandwidth in layers that move data.
        launch_s: seconds that one layer costs at least per pass (kernel launches, the host).
        tensor_flops: share of the peak operations of tensor cores, where they compute.
    """

    flops: float = 0.74
    bandwidth: float = 0.42
    launch_s: float = 240e-6
    tensor_flops: float = 0.80

    def __post_init__(self) -> None:
        require_positive("flops", self.flops)
        require_positive("tensor_flops", self.tensor_flops)
        require_positive("bandwidth", self.bandwidth)
        require_not_negative("launch_s", self.launch_s)


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
    backward_ratio: float = 2.0,
    interval_fraction: float = LAYERS_FRACTION,
    source: str = "estimated by Srifty's roofline from a layer table",
) -> WorkloadProfile:
    """Returns a profile counted from the layers' work.

    Per layer, forward: `max(F B / (e_f P), V B / (e_w W)) + l` with the layer's operations F and
    traffic V (what it writes is read once: twice its bytes, half that in fp16 and bf16), the GPU's
    peak rates P and W, the efficiencies e_f and e_w, and the launch time l. Backward is
    `backward_ratio` times that plus one write and one read of the layer's gradient; the optimizer
    moves five times the parameters' bytes.

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
        backward_ratio: see `StepWork`.
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
    columns = LayerColumns.of(layers, gpu, precision, fast_layers=fast_layers)
    forward_s, backward_s = columns.times_s(batches, reached, backward_ratio)
    latencies = tuple(
        BatchLatency(
            batch=batch,
            forward_s=float(forward),
            backward_s=float(backward),
            optimizer_s=columns.optimizer_s(reached),
        )
        for batch, forward, backward in zip(
            batches, forward_s.sum(axis=1), backward_s.sum(axis=1), strict=True
        )
    )
    share = reached.tensor_flops if columns.on_tensor_cores else reached.flops
    return WorkloadProfile(
        workload=workload,
        gpu=gpu.name,
        latencies=latencies,
        max_batch=max_batch,
        gradients=gradients,
        precision=precision_on(gpu, precision),
        max_batch_evidence="estimated",
        estimated=True,
        interval_fraction=interval_fraction,
        layers=tuple(layers),
        source=source,
        notes=(
            f"ESTIMATED, not measured: counted from a layer table at {share:.0%} of "
            f"{gpu.name}'s peak operations and {reached.bandwidth:.0%} of its memory bandwidth, "
            f"{reached.launch_s * 1e6:.0f} us per layer and pass; true latencies are expected "
            f"within {interval_fraction:.0%} in 9 cases of 10, as far as public curves tell",
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
    backward_ratio: float = 2.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the forward and the backward time of each layer, seconds (see `profile_from_layers`).

    Raises:
        InputError: `batch` is below 1.
    """
    require_count("batch", batch)
    columns = LayerColumns.of(layers, gpu, precision, fast_layers=fast_layers)
    forward_s, backward_s = columns.times_s([batch], efficiency or Efficiency(), backward_ratio)
    return forward_s[0], backward_s[0]


@dataclass(frozen=True, slots=True)
class LayerColumns:
    """Layers on one GPU as arrays, for many batches or efficiencies.

    Attributes:
        compute_s: seconds per sample that each layer computes at the GPU's peak rate.
        memory_s: seconds per sample that it moves data at the peak bandwidth.
        gradient_s: seconds that writing its gradient takes at the peak bandwidth.
        on_tensor_cores: which of the efficiencies holds.
    """

    compute_s: np.ndarray
    memory_s: np.ndarray
    gradient_s: np.ndarray
    on_tensor_cores: bool

    @classmethod
    def of(
        cls,
        layers: Sequence[Layer],
        gpu: GpuModel,
        precision: str,
        *,
        fast_layers: Collection[str] = (),
    ) -> LayerColumns:
        """Returns the columns of layers on a GPU (see `profile_from_layers`)."""
        runs = precision_on(gpu, precision)
        saving = FAST_CONVOLUTION_SAVING if runs == "fp32" else 1.0
        traffic = 1.0 if runs in ("fp16", "bf16") else 2.0
        flops = [layer.flops / (saving if layer.name in fast_layers else 1.0) for layer in layers]
        bandwidth = gpu.memory_bytes_per_s
        return cls(
            compute_s=np.array(flops) / peak_flops(gpu, precision),
            memory_s=traffic * np.array([layer.bytes for layer in layers]) / bandwidth,
            gradient_s=4.0 * np.array([layer.parameters for layer in layers]) / bandwidth,
            on_tensor_cores=runs not in ("fp32", "unknown"),
        )

    def times_s(
        self, batches: Sequence[int], efficiency: Efficiency, backward_ratio: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns forward and backward seconds: one row per batch, one column per layer."""
        batch = np.asarray(batches, dtype=float)[:, None]
        share = efficiency.tensor_flops if self.on_tensor_cores else efficiency.flops
        work_s = np.maximum(self.compute_s / share, self.memory_s / efficiency.bandwidth)
        forward_s = batch * work_s + efficiency.launch_s
        gradient_s = 2.0 * self.gradient_s / efficiency.bandwidth
        return forward_s, backward_ratio * forward_s + gradient_s

    def steps_s(
        self, batches: Sequence[int], efficiency: Efficiency, backward_ratio: float
    ) -> np.ndarray:
        """Returns seconds of the whole step by batch."""
        forward_s, backward_s = self.times_s(batches, efficiency, backward_ratio)
        return forward_s.sum(axis=1) + backward_s.sum(axis=1) + self.optimizer_s(efficiency)

    def optimizer_s(self, efficiency: Efficiency) -> float:
        """Returns seconds of the optimizer step: it moves five times the parameters' bytes."""
        return float(5.0 * self.gradient_s.sum() / efficiency.bandwidth)
