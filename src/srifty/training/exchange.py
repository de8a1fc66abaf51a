"""A few numbers of each step, added up over the workers without waiting for them."""

from __future__ import annotations

from typing import Any

from srifty._torch import Tensor, torch
from srifty.training.lent import lend


class Exchange:
    """Adds up numbers of all workers; the sums are there one step later.

    Args:
        group: of processes that can send from the CPU, used by nothing else; None for one worker.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self._sent: Tensor | None = None
        self._work: Any = None

    def swap(self, numbers: list[float]) -> list[float] | None:
        """Sends numbers, and returns the sums of those sent before; None the first time.

        Args:
            numbers: of this step, as many on each worker.
        """
        before = None if self._sent is None else self.last()
        self._sent = lend(torch.tensor(numbers, dtype=torch.float64))
        if self._group is not None:
            self._work = torch.distributed.all_reduce(self._sent, group=self._group, async_op=True)
        return before

    def last(self) -> list[float]:
        """Waits for the sums of what was sent last, and returns them."""
        if self._work is not None:
            self._work.wait()
        return [] if self._sent is None else self._sent.tolist()


class Reading:
    """The value of a tensor of one number, to be had later without waiting for a GPU's other work.

    Args:
        tensor: the number; None for none.
    """

    def __init__(self, tensor: Tensor | None) -> None:
        self._event: Any = None
        self._value = tensor
        if tensor is not None and tensor.is_cuda:
            self._value = torch.empty((), dtype=tensor.dtype, pin_memory=True)
            self._value.copy_(tensor.detach(), non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()

    def value(self) -> float | None:
        """Returns the number; None if there is none."""
        if self._event is not None:
            self._event.synchronize()
        return None if self._value is None else float(self._value)
