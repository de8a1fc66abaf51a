"""A device with little memory and a model that counts: for testing the search (torch)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from srifty._torch import Tensor, torch
from srifty.profiling.device import Mark
from srifty.profiling.workload import Workload, batch_size_of


class FakeMemoryDevice:
    """A CPU that pretends to have a memory of few units, and runs out of it.

    A step at a batch of b samples takes (fixed + per_sample · b) · (1 ± jitter) units.

    Args:
        units: its memory.
        fixed: what every step takes.
        per_sample: what each sample takes beside.
        jitter: half-range of the factor, drawn anew for each step.
        leak: what stays taken after each time that memory ran out.
        isolated: whether trials free everything, as a process of its own does; then nothing leaks.
        seed: of the jitter.
    """

    kind = "cpu"

    def __init__(
        self,
        units: int = 1000,
        fixed: int = 120,
        per_sample: int = 10,
        jitter: float = 0.03,
        leak: int = 20,
        *,
        isolated: bool = True,
        seed: int = 0,
    ) -> None:
        self.name = "fake"
        self.place = torch.device("cpu")
        self._units = units
        self._fixed = fixed
        self._per_sample = per_sample
        self._jitter = jitter
        self._leak = 0 if isolated else leak
        self._leaked = 0
        self._peak = 0.0
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def move(self, batch: Any) -> Any:
        self.take(batch_size_of(batch))
        return batch

    def take(self, batch: int) -> None:
        """Takes the memory of one step at so many samples, and frees it.

        Raises:
            torch.OutOfMemoryError: there is not enough.
        """
        factor = 1 + self._random.uniform(-self._jitter, self._jitter)
        used = (self._fixed + self._per_sample * batch) * factor + self._leaked
        if used > self._units:
            self._leaked += self._leak
            raise torch.OutOfMemoryError(f"fake out of memory: {used:.0f} of {self._units} units")
        self._peak = max(self._peak, used)

    def synchronize(self) -> None:
        return

    def clock(self) -> Mark:
        return 0.0

    def seconds_between(self, before: Mark, after: Mark) -> float:
        return float(after - before)

    def host_s(self) -> float:
        return 0.0

    def memory_bytes(self) -> int | None:
        return self._units

    def reset_peak(self) -> None:
        self._peak = float(self._leaked)

    def peak_memory_bytes(self) -> int | None:
        return round(self._peak)


class CountingModel(torch.nn.Module):
    """A small model with BatchNorm and dropout that counts, by batch size, what is done with it.

    Attributes:
        forwards: forward passes in train mode.
        backwards: backward passes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)
        )
        self.forwards: Counter[int] = Counter()
        self.backwards: Counter[int] = Counter()

    def forward(self, x: Tensor) -> Tensor:
        """Returns (samples, 8) features of (samples, 4)."""
        samples = len(x)
        self.forwards[samples] += self.training
        features: Tensor = self.layers(x)

        def count(_: Tensor) -> None:
            self.backwards[samples] += 1

        features.register_hook(count)
        return features


def counting_workload(**changes: Any) -> Workload:
    """Returns a workload over a `CountingModel`, trained by AdamW.

    Args:
        changes: fields of the workload that differ.
    """
    model = CountingModel()
    parts: dict[str, Any] = {
        "name": "counting",
        "model": model,
        "loss": _loss,
        "make_batch": _make_batch,
        "optimizer": torch.optim.AdamW(model.parameters()),
    }
    return Workload(**(parts | changes))


def _loss(model: Any, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def _make_batch(size: int) -> Tensor:
    return torch.randn(size, 4)
