"""Full training steps, marked where forward, backward and optimizer begin and end (torch)."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

from srifty.errors import InputError
from srifty.profiling._torch import Module, Tensor, torch
from srifty.profiling.device import Device, Mark
from srifty.profiling.workload import Workload, kind_of

Precision = Literal["fp32", "bf16", "fp16"]
# Versions of one model that torch keeps compiled (its recompile limit).
MOST_COMPILED = 8
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class StepMarks:
    """The device's marks of one step.

    Attributes:
        begin: before gradients are cleared.
        passes: for each pass (several with accumulation): its begin, the end of its forward pass
            (loss included) and the end of its backward pass.
        end: after the optimizer's step.
    """

    begin: Mark
    passes: tuple[tuple[Mark, Mark, Mark], ...]
    end: Mark


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of one step.

    Attributes:
        forward_s: one forward pass; the mean over the passes of the step.
        backward_s: one backward pass, likewise.
        optimizer_s: clearing gradients and the optimizer's step.
        step_s: from the first mark to the last.
    """

    forward_s: float
    backward_s: float
    optimizer_s: float
    step_s: float


class StepRunner:
    """Trains a workload step by step, as a training loop would.

    Args:
        workload: what to train; its model is moved to the device and put into train mode.
        device: where.
        precision: `fp32`, or autocast to `bf16` or `fp16` (with a gradient scaler).
        accumulation: forward and backward passes before each optimizer step.
        compiled: whether the model goes through `torch.compile`.

    Attributes:
        loss: of the last pass, on the device; None before the first.

    Raises:
        InputError: accumulation is below 1.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        precision: Precision = "fp32",
        accumulation: int = 1,
        *,
        compiled: bool = False,
    ) -> None:
        if accumulation < 1:
            raise InputError(f"accumulation must be 1 or more, not {accumulation}")
        self.workload = workload
        self.device = device
        self.precision = precision
        self.accumulation = accumulation
        workload.model.to(device.place)
        workload.model.train()
        self._model = _compiled(workload.model) if compiled else workload.model
        self.loss: Tensor | None = None
        self._scaler = torch.amp.GradScaler(device.kind, enabled=precision == "fp16")

    def step(self, batch: Any) -> StepMarks:
        """Queues one full step on a batch that lies on the device, and waits for nothing.

        Whatever torch or the user's code raises (out of memory, ...) passes through.
        """
        clock, optimizer = self.device.clock, cast("Any", self.workload.optimizer)
        begin = clock()
        optimizer.zero_grad(set_to_none=True)
        passes: list[tuple[Mark, Mark, Mark]] = []
        for _ in range(self.accumulation):
            start = clock()
            loss = self._loss(batch)
            self.loss = loss.detach()
            middle = clock()
            self._scaler.scale(loss).backward()
            passes.append((start, middle, clock()))
        self._scaler.step(optimizer)
        self._scaler.update()
        return StepMarks(begin, tuple(passes), clock())

    @property
    def loss_is_finite(self) -> bool:
        """Whether the last pass gave a loss that is a number; waits for the device."""
        return self.loss is None or bool(torch.isfinite(self.loss))

    def times(self, marks: StepMarks) -> StepTimes:
        """Returns a step's seconds; only after the device has been synchronised."""
        between = self.device.seconds_between
        forward_s = sum(between(start, middle) for start, middle, _ in marks.passes)
        backward_s = sum(between(middle, end) for _, middle, end in marks.passes)
        cleared_s = between(marks.begin, marks.passes[0][0])
        stepped_s = between(marks.passes[-1][2], marks.end)
        return StepTimes(
            forward_s=forward_s / self.accumulation,
            backward_s=backward_s / self.accumulation,
            optimizer_s=cleared_s + stepped_s,
            step_s=between(marks.begin, marks.end),
        )

    def _loss(self, batch: Any) -> Any:
        if self.precision == "fp32":
            loss = self.workload.loss(self._model, batch)
        else:
            dtype = torch.bfloat16 if self.precision == "bf16" else torch.float16
            with torch.autocast(self.device.kind, dtype=dtype):
                loss = self.workload.loss(self._model, batch)
        if not isinstance(loss, torch.Tensor) or loss.dim() > 0 or not loss.requires_grad:
            raise InputError(
                "loss must return a scalar tensor that depends on trainable parameters, not "
                f"{_told(loss)}",
                self.workload.name,
            )
        return loss / self.accumulation if self.accumulation > 1 else loss


def _told(loss: Any) -> str:
    """Returns what a loss is that is none."""
    if not isinstance(loss, torch.Tensor):
        return kind_of(loss)
    if loss.dim() > 0:
        return f"a tensor of shape {tuple(loss.shape)}; .mean() or .sum() makes it a scalar"
    return "one without a gradient, as .detach(), .item() or torch.no_grad() leave it"


@contextmanager
def compiled_anew() -> Generator[None]:
    """Lets nothing that was compiled earlier be taken from torch's cache on the disk."""
    try:
        settings: Any = importlib.import_module("torch.compiler.config")
    except ImportError:  # torch before 2.7: what compilation takes may be told too low
        yield
        return
    with warnings.catch_warnings(), settings.patch(force_disable_caches=True):
        warnings.filterwarnings("ignore", message=".*force disabled by.*")
        yield


def _compiled(model: Module) -> Module:
    # Sizes are compiled one by one, as a training with one batch size would be; torch keeps few
    # such versions of a model, and without room goes on uncompiled.
    torch.compiler.reset()
    return torch.compile(model, dynamic=False)
