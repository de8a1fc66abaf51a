"""What a training step does, counted without running it."""

from __future__ import annotations

from dataclasses import dataclass, field

from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.profile import GradientSchedule, Item, Layer


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Peak memory of a step as a line in the batch.

    Attributes:
        fixed_bytes: the part of forward and backward pass that does not grow: weights, their
            gradients, the optimizer's state.
        sample_bytes: what each sample adds to it.
        least_bytes: what the optimizer's step needs, however small the batch.
    """

    fixed_bytes: float
    sample_bytes: float
    least_bytes: float = 0.0

    def __post_init__(self) -> None:
        require_not_negative("least_bytes", self.least_bytes)
        require_not_negative("fixed_bytes", self.fixed_bytes)
        require_positive("sample_bytes", self.sample_bytes)


@dataclass(frozen=True, slots=True)
class StepWork:
    """One workload's work per sample.

    Attributes:
        workload: the workload's name.
        precision: the precision that the memory was counted for.
        layers: work per layer, forward pass only.
        fast_layers: names of the 3x3 convolutions that libraries compute in fewer operations.
        backward_ratio: operations of the backward over those of the forward pass: 2 where all
            weights are trained, 1 where next to none is, 3 with activation checkpointing.
        memory: peak memory; None where it was not counted.
        gradients: the gradient exchange; None where unknown.
        item: what one sample is.
        min_batch: smallest usable micro-batch.
        most_batch: no larger micro-batch is of use: the data set or global batch; None: unlimited.
        notes: what a user should know.
    """

    workload: str
    precision: str
    layers: tuple[Layer, ...]
    fast_layers: frozenset[str] = frozenset()
    backward_ratio: float = 2.0
    memory: StepMemory | None = None
    gradients: GradientSchedule | None = None
    item: Item = field(default_factory=Item)
    min_batch: int = 1
    most_batch: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.workload), "work needs the workload's name")
        require(bool(self.layers), "work needs at least one layer")
        require_not_negative("backward_ratio", self.backward_ratio)
        require_count("min_batch", self.min_batch)
        if self.most_batch is not None:
            require_count("most_batch", self.most_batch)

    @property
    def flops(self) -> float:
        """Operations of the forward pass per sample."""
        return sum(layer.flops for layer in self.layers)
