"""Latencies counted from layers: each takes the longer of its operations and its memory traffic.

Marked `estimated`, with a wide interval; `docs/samples.md` has the errors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from srifty.compute.memory import (
    estimate_max_batch,
)
from srifty.compute.peaks import peak_flops
from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    GradientSchedule,
    Layer,
    WorkloadProfile,
)

LAYERS_INTERVAL_FRACTION = 0.4
"""Half width of the 90 % interval of a curve counted from layers (`docs/samples.md`)."""

FAST_CONVOLUTION_SAVING = 2.25
"""How many times fewer operations Winograd's F(2x2, 3x3) needs (Lavin and Gray 2016, sec. 4.1)."""


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
    compute_s = batch * flops / (reached.flops * peak_flops(gpu, precision))
    memory_s = batch * 2.0 * written_bytes / bytes_per_s
    work_s = np.maximum(compute_s, memory_s)
    forward_s = work_s + reached.launch_s
    backward_s = 2.0 * forward_s + 2.0 * gradient_bytes / bytes_per_s
    return forward_s, backward_s


def _optimizer_s(layers: Sequence[Layer], gpu: GpuModel, reached: Efficiency) -> float:
    parameter_bytes = 4.0 * sum(layer.parameters for layer in layers)
    return 5.0 * parameter_bytes / (reached.bandwidth * gpu.memory_bytes_per_s)
