"""Workload profiles: what was measured of one model on one GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from srifty.core._checks import (
    MOST_BYTES,
    require,
    require_count,
    require_fraction,
    require_not_negative,
    require_positive,
)

_MOST_NAMES = 5
# What `srifty profile` writes into the source there.
_ON_CPU = "srifty profile on CPU"

MaxBatchEvidence = Literal["measured", "estimated", "stopped-at"]


@dataclass(frozen=True, slots=True)
class BatchLatency:
    """Measured mean latency of one training step at one batch size.

    Either `forward_s` and `backward_s` are known, or `iteration_s` alone.

    Attributes:
        batch: samples in one forward/backward pass.
        forward_s: forward pass, seconds.
        backward_s: backward pass, seconds.
        optimizer_s: optimizer step, seconds; None where not measured apart.
        iteration_s: the whole step, seconds, where that is all that was measured.
        std_s: standard deviation of the step time from step to step, seconds.
        steps: how many steps were averaged.
    """

    batch: int
    forward_s: float | None = None
    backward_s: float | None = None
    optimizer_s: float | None = None
    iteration_s: float | None = None
    std_s: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        require_count("batch", self.batch)
        where = f"batch {self.batch}"
        split = self.forward_s is not None and self.backward_s is not None
        require(
            split or self.iteration_s is not None,
            f"{where} needs forward_s and backward_s, or iteration_s",
        )
        require(
            (self.forward_s is None) == (self.backward_s is None),
            f"{where} has only one of forward_s and backward_s; give both or iteration_s alone",
        )
        require(
            not (split and self.iteration_s is not None),
            f"{where} has iteration_s beside forward_s and backward_s; give one of the two",
        )
        for name in ("forward_s", "backward_s", "iteration_s"):
            value: float | None = getattr(self, name)
            if value is not None:
                require_positive(f"{where}: {name}", value)
        for name in ("optimizer_s", "std_s"):
            value = getattr(self, name)
            if value is not None:
                require_not_negative(f"{where}: {name}", value)
        if self.steps is not None:
            require_count(f"{where}: steps", self.steps)

    @property
    def is_split(self) -> bool:
        """Whether forward and backward were measured apart."""
        return self.forward_s is not None

    @property
    def step_s(self) -> float:
        """Forward, backward and optimizer together, seconds."""
        if self.forward_s is not None and self.backward_s is not None:
            return self.forward_s + self.backward_s + (self.optimizer_s or 0.0)
        if self.iteration_s is None:  # excluded by the constructor
            raise AssertionError("a latency without any time")
        return self.iteration_s


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of one parameter tensor.

    Attributes:
        name: the parameter's name.
        bytes: size of the gradient.
        ready: when it is ready, as a fraction of the backward pass.
        ready_at: the same by batch size, where it was measured at several.
        dtype: its element type, such as `float32`; None: unknown, as that of all others, and taken
            to be the same.
        index: its place among the trainable parameters in order of registration, from 0; None:
            unknown.
        sparse: whether it is sent as indices and values, by itself.
    """

    name: str
    bytes: int
    ready: float
    ready_at: dict[int, float] = field(default_factory=dict[int, float])
    dtype: str | None = None
    index: int | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        where = f"gradient {self.name!r}"
        require_count(f"{where}: bytes", self.bytes, most=MOST_BYTES)
        require_fraction(f"{where}: ready", self.ready)
        for batch, fraction in self.ready_at.items():
            require_count(f"{where}: ready_at", batch)
            require_fraction(f"{where}: ready_at.{batch}", fraction)
        require(self.dtype != "", f"{where}: dtype must name an element type, such as float32")
        if self.index is not None:
            require_count(f"{where}: index", self.index, least=0)


@dataclass(frozen=True, slots=True)
class GradientSchedule:
    """The gradients of a workload in the order in which they become ready.

    Attributes:
        gradients: in order of readiness.
        estimated: whether order and ready times were estimated rather than measured.
        unused: trainable parameters whose gradient stays away; zeros are sent in its place. Their
            `ready` is 0.
        find_unused_parameters: whether DistributedDataParallel has to be called with it.
    """

    gradients: tuple[Gradient, ...]
    estimated: bool = False
    unused: tuple[Gradient, ...] = ()
    find_unused_parameters: bool = False

    def __post_init__(self) -> None:
        for before, after in pairwise(self.gradients):
            require(
                before.ready <= after.ready,
                f"gradients must stand in order of readiness, but {after.name!r} ({after.ready}) "
                f"follows {before.name!r} ({before.ready})",
            )
            require(
                before.ready_at.keys() == after.ready_at.keys(),
                f"ready_at must have the same batch sizes in all gradients, but {after.name!r} has "
                f"{_listed(after.ready_at)} and {before.name!r} {_listed(before.ready_at)}",
            )
        names = Counter(gradient.name for gradient in self.parameters)
        twice = next((name for name, times in names.items() if times > 1), None)
        require(
            twice is None,
            "gradients and unused parameters must have different names, but "
            f"{twice!r} stands there {names[twice or '']} times",
        )
        for field_name in ("dtype", "index"):
            lacking = [g.name for g in self.parameters if getattr(g, field_name) is None]
            require(
                len(lacking) in (0, len(self.parameters)),
                f"{field_name} must stand in all gradients and unused parameters, or in none; "
                f"missing in {_quoted(lacking)}",
            )
        by_index: dict[int | None, list[str]] = {}
        for gradient in self.parameters:
            by_index.setdefault(gradient.index, []).append(gradient.name)
        for index, clashing in by_index.items():
            require(
                index is None or len(clashing) == 1,
                f"index must be another one in each gradient and unused parameter, but "
                f"{_quoted(clashing)} have {index}",
            )
        require(
            not any(gradient.ready or gradient.ready_at for gradient in self.unused),
            "unused parameters have no ready time",
        )

    @property
    def parameters(self) -> tuple[Gradient, ...]:
        """All that is exchanged: the gradients, then those whose gradient stays away."""
        return self.gradients + self.unused

    @property
    def total_bytes(self) -> int:
        """Bytes that one iteration exchanges."""
        return sum(gradient.bytes for gradient in self.parameters)

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes at which ready times were measured, ascending; none: unknown."""
        return tuple(sorted(self.gradients[0].ready_at)) if self.gradients else ()

    @property
    def registered(self) -> tuple[Gradient, ...] | None:
        """All parameters in order of registration, or None where that is unknown."""
        places: dict[int, Gradient] = {}
        for gradient in self.parameters:
            if gradient.index is None:
                return None
            places[gradient.index] = gradient
        return tuple(places[index] for index in sorted(places))


def _quoted(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    return f"{shown} and {more} more" if more > 0 else shown


def _listed(batches: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(batches))) or "none"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's work per sample, forward pass only.

    Attributes:
        name: the layer's name.
        flops: floating-point operations (a multiply-add counts as two).
        bytes: activation bytes written, at 4 bytes an element.
        parameters: trainable parameters.
    """

    name: str
    flops: float
    bytes: float
    parameters: int

    def __post_init__(self) -> None:
        require_not_negative(f"layer {self.name!r}: flops", self.flops)
        require_not_negative(f"layer {self.name!r}: bytes", self.bytes)
        require_count(f"layer {self.name!r}: parameters", self.parameters, least=0, most=MOST_BYTES)


@dataclass(frozen=True, slots=True)
class Item:
    """What one sample is.

    Attributes:
        unit: `sample`, `sequence` or `token`.
        seq_len: tokens in a sequence, where that is what a sample is.
    """

    unit: Literal["sample", "sequence", "token"] = "sample"
    seq_len: int | None = None

    def __post_init__(self) -> None:
        if self.seq_len is not None:
            require_count("item.seq_len", self.seq_len)


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """One workload on one GPU model.

    Attributes:
        workload: the workload's name.
        gpu: name of the GPU model.
        precision: `fp32`, `bf16`, `fp16`, `tf32`, or `unknown`.
        latencies: measured (or estimated) step latencies by ascending batch.
        gradients: the gradient exchange; None where unknown.
        max_batch: largest micro-batch that fits in the GPU's memory.
        max_batch_evidence: how that is known; `stopped-at` means larger ones were not tried.
        min_batch: smallest usable micro-batch (BatchNorm models need 2).
        spatial_std_fraction: spread between GPUs of one type, as a fraction of the latency.
        input_samples_per_s_per_vcpu: what the loader delivers per vCPU; None: input is assumed
            free.
        estimated: whether the latencies were estimated rather than measured.
        interval_fraction: half width of the 90 % interval of the latencies, where known.
        layers: work per layer, for estimates and analytic baselines; may be empty.
        item: what one sample is.
        verified_batches: micro-batches that were run in full to see that they fit; empty: unknown.
        peak_memory_bytes: peak memory by batch, where measured.
        measured_at: ISO date or time, where known.
        source: how and by whom it was measured.
        software: library versions.
        compile_s: seconds that compilation took; None where nothing was compiled.
        notes: what a user should know.
    """

    workload: str
    gpu: str
    latencies: tuple[BatchLatency, ...]
    max_batch: int
    gradients: GradientSchedule | None = None
    precision: str = "unknown"
    max_batch_evidence: MaxBatchEvidence = "estimated"
    min_batch: int = 1
    spatial_std_fraction: float | None = None
    input_samples_per_s_per_vcpu: float | None = None
    estimated: bool = False
    interval_fraction: float | None = None
    layers: tuple[Layer, ...] = ()
    item: Item = field(default_factory=Item)
    verified_batches: tuple[int, ...] = ()
    peak_memory_bytes: dict[int, int] = field(default_factory=dict[int, int])
    measured_at: str | None = None
    source: str = ""
    software: dict[str, str] = field(default_factory=dict[str, str])
    compile_s: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.workload), "a profile needs the workload's name")
        require(bool(self.gpu), "a profile needs the GPU's name")
        require(bool(self.latencies), "a profile needs at least one latency")
        for before, after in pairwise(self.latencies):
            require(
                before.batch < after.batch,
                "latencies must stand by ascending batch, each once, but batch "
                f"{after.batch} follows {before.batch}",
            )
        split = {latency.is_split for latency in self.latencies}
        require(
            len(split) == 1,
            "latencies must all be split into forward and backward, or all be iteration times",
        )
        require_count("min_batch", self.min_batch)
        require_count("max_batch", self.max_batch)
        require(
            self.min_batch <= self.max_batch,
            f"min_batch ({self.min_batch}) is above max_batch ({self.max_batch})",
        )
        for batch in self.verified_batches:
            require_count("verified_batches", batch)
        if self.spatial_std_fraction is not None:
            require_fraction("spatial_std_fraction", self.spatial_std_fraction)
        if self.interval_fraction is not None:
            require_fraction("interval_fraction", self.interval_fraction)
        if self.input_samples_per_s_per_vcpu is not None:
            require_positive("input_samples_per_s_per_vcpu", self.input_samples_per_s_per_vcpu)
        if self.compile_s is not None:
            require_not_negative("compile_s", self.compile_s)

    @property
    def is_split(self) -> bool:
        """Whether forward and backward were measured apart."""
        return self.latencies[0].is_split

    @property
    def is_cpu_posing(self) -> bool:
        """Whether it was measured on a CPU by its own word, and yet names another device."""
        return _ON_CPU in self.source and not self.estimated and not self.gpu.startswith("CPU")
