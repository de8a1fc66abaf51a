"""What all workers of a training decide together, by messages that come between no model's."""

from __future__ import annotations

from typing import Any

from srifty._torch import torch
from srifty.errors import InputError
from srifty.training.lent import lend
from srifty.training.share import Share


class Company:
    """All workers of a training.

    Args:
        share: of this worker.

    Attributes:
        group: of all workers, that can send from the CPU; None for one worker.
        save_group: another one, which only saves use.

    Raises:
        InputError: there are to be several workers, and no processes were started.
    """

    def __init__(self, share: Share) -> None:
        self.group: Any = None
        self.save_group: Any = None
        if share.world_size == 1:
            return
        distributed: Any = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            raise InputError(
                "make the Run after distribute(model, share), which starts the processes"
            )
        self.group = distributed.new_group(backend="gloo")
        self.save_group = distributed.new_group(backend="gloo")

    def from_first(self, numbers: list[int]) -> list[int]:
        """Returns the first worker's numbers on all workers."""
        if self.group is None:
            return numbers
        sent = lend(torch.tensor(numbers, dtype=torch.int64))
        first = torch.distributed.get_global_rank(self.group, 0)
        torch.distributed.broadcast(sent, first, group=self.group)
        return sent.tolist()

    def any(self, mine: bool) -> bool:
        """Returns whether it is so on any worker."""
        if self.group is None:
            return mine
        sent = lend(torch.tensor(int(mine)))
        torch.distributed.all_reduce(sent, torch.distributed.ReduceOp.MAX, group=self.group)
        return bool(sent)

    def agree(self, problem: InputError | OSError | None, elsewhere: str) -> None:
        """Returns if no worker has a problem; else all raise, so that none waits for another.

        Args:
            problem: of this worker, if it has one.
            elsewhere: what a worker without one says.

        Raises:
            InputError: as said.
            OSError: if that is this worker's problem.
        """
        if self.any(problem is not None):
            raise problem or InputError(elsewhere)
