"""Devices that only pretend, for testing factories and the profiler itself without a GPU (torch).

`FakeAsyncDevice` behaves as a GPU does towards clocks: operations are queued and return at once,
`synchronize` waits. Its time is counted, not real, so that tests never depend on the machine.
"""

from __future__ import annotations

from typing import Any, cast

from srifty._torch import Module, Tensor, torch
from srifty.profiling.device import Mark
from srifty.profiling.workload import Workload
from srifty.units import GIB


class FakeAsyncDevice:
    """A device with a queue and two clocks: the host's, and its own.

    Args:
        launch_s: what queueing one operation costs the host, seconds.
        start_up_s: what the first operation costs beside its work (a context is created).
    """

    kind = "cpu"

    def __init__(self, launch_s: float = 1e-5, start_up_s: float = 0.0) -> None:
        self.name = "fake"
        self.place = torch.device("cpu")
        self._launch_s = launch_s
        self._start_up_s = start_up_s
        self._host_s = 0.0
        self._done_s = 0.0  # when all that is queued will be done

    def work(self, seconds: float) -> None:
        """Queues work that takes the device so long, and returns at once."""
        self._host_s += self._launch_s
        self._done_s = max(self._done_s, self._host_s) + seconds + self._start_up_s
        self._start_up_s = 0.0

    def move(self, batch: Any) -> Any:
        return batch

    def synchronize(self) -> None:
        self._host_s = max(self._host_s, self._done_s)

    def clock(self) -> Mark:
        return max(self._done_s, self._host_s)

    def seconds_between(self, before: Mark, after: Mark) -> float:
        return float(after - before)

    def host_s(self) -> float:
        return self._host_s

    def memory_bytes(self) -> int | None:
        return 16 * GIB

    def reset_peak(self) -> None:
        return

    def peak_memory_bytes(self) -> int | None:
        return GIB


class QueuedLayer(torch.nn.Module):
    """A linear layer whose passes take a `FakeAsyncDevice` a stated time.

    Args:
        device: whose queue.
        forward_s: (fixed, per sample) seconds of the forward pass.
        backward_s: the same for the backward pass.
        width: features in and out.
    """

    def __init__(
        self,
        device: FakeAsyncDevice,
        forward_s: tuple[float, float],
        backward_s: tuple[float, float],
        width: int = 2,
    ) -> None:
        super().__init__()
        self.linear: Module = torch.nn.Linear(width, width)
        self._device = device
        self._forward_s = forward_s
        self._backward_s = backward_s

    def forward(self, x: Tensor) -> Tensor:
        fixed_s, per_sample_s = self._forward_s
        self._device.work(fixed_s + per_sample_s * len(x))
        queued: Any = _Queued
        return queued.apply(self.linear(x), self._device, self._backward_s)


class QueuedSgd(torch.optim.SGD):
    """Plain SGD whose step takes a `FakeAsyncDevice` a stated time."""

    def __init__(self, parameters: Any, device: FakeAsyncDevice, step_s: float) -> None:
        super().__init__(parameters, lr=1e-3)
        self._device = device
        self._step_s = step_s

    def step(self, closure: Any = None) -> Any:
        self._device.work(self._step_s)
        plain: Any = super()
        return plain.step(closure)


def queued_workload(
    device: FakeAsyncDevice,
    forward_s: tuple[float, float] = (0.002, 0.0001),
    backward_s: tuple[float, float] = (0.004, 0.0002),
    optimizer_s: float = 0.001,
    layers: int = 2,
) -> Workload:
    """Returns a workload whose passes take the device exactly so long.

    Args:
        device: whose queue.
        forward_s: (fixed, per sample) seconds of the whole forward pass.
        backward_s: the same for the backward pass.
        optimizer_s: the optimizer's step.
        layers: over how many layers the passes are spread evenly.
    """

    def share(seconds: tuple[float, float]) -> tuple[float, float]:
        return seconds[0] / layers, seconds[1] / layers

    model = torch.nn.Sequential(
        *(QueuedLayer(device, share(forward_s), share(backward_s)) for _ in range(layers))
    )
    return Workload(
        name="queued",
        model=model,
        loss=lambda model, batch: model(batch).square().mean(),
        make_batch=lambda size: torch.ones(size, 2),
        optimizer=QueuedSgd(model.parameters(), device, optimizer_s),
    )


class _Queued(torch.autograd.Function):
    """Passes values through; its backward pass queues work."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, device: FakeAsyncDevice, backward_s: tuple[float, float]
    ) -> Tensor:
        context.device, context.backward_s = device, backward_s
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        fixed_s, per_sample_s = cast("tuple[float, float]", context.backward_s)
        context.device.work(fixed_s + per_sample_s * len(gradients[0]))
        return gradients[0], None, None
