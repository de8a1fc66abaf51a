"""Runs, checks and times the allreduces of one cell (torch)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from srifty.probing.grid import Cell, ElementType
from srifty.probing.group import Backend, Group

_MEMORY = Path("/proc/meminfo")
# The message, and what gloo holds of it in flight.
_COPIES = 2.5


class Bench:
    """The messages of one rank, and the operations on them.

    Args:
        group: all ranks.
        element: element type of the messages.
    """

    def __init__(self, group: Group, element: ElementType) -> None:
        self._group = group
        self._torch = group.torch
        self._element = element
        self._type = getattr(group.torch, element.value)
        self._buffer = self._zeros(0)

    def make_room(self, cell: Cell) -> bool:
        """Returns whether this rank's memory holds the messages of a cell; holds them if so."""
        elements = cell.total_bytes // self._element.bytes
        if elements <= self._buffer.numel():
            return True
        held = self._buffer.numel()
        if self._group.device == "cpu":
            ranks = self._group.launch.local_world_size
            if ranks * (_COPIES * cell.total_bytes - held * self._element.bytes) > _free_bytes():
                return False
        try:
            # The old messages go first: both together may be too many.
            self._buffer = self._zeros(0)
            self._buffer = self._zeros(elements)
        except RuntimeError:  # torch's word, and CUDA's, for no memory
            self._buffer = self._zeros(held)
            return False
        return True

    def _zeros(self, elements: int) -> Any:
        return self._torch.zeros(elements, dtype=self._type, device=self._group.device)

    def adds_rightly(self, cell: Cell) -> bool:
        """Returns whether one operation on known messages gives the known sum on this rank.

        Element i of rank r is `1 + (r + i) mod 2`, so neighbours differ and ranks differ. The sums
        of up to 128 ranks are exact in all element types; beyond, rounding is allowed for.
        """
        rank, world = self._group.launch.rank, self._group.launch.world_size
        messages = self._messages(cell)
        # In transfers of an odd number of elements each one starts with its own pattern.
        for message in messages:
            message[0::2] = 1 + rank % 2
            message[1::2] = 1 + (rank + 1) % 2
        self._run(messages)
        self._settle()
        odd = world // 2
        right = True
        for message in messages:
            for start, expected in ((0, world + odd), (1, world + world - odd)):
                part = message[start::2]
                if part.numel():
                    off = (
                        (part.amax() - expected).abs().item(),
                        (part.amin() - expected).abs().item(),
                    )
                    right = right and max(off) <= self._tolerance(world)
            message.zero_()  # timed sums of zeros stay zeros, however often they repeat
        return right

    def operation_s(self, cell: Cell, inner: int) -> float:
        """Returns this rank's seconds per operation over `inner` of them, one after the other.

        An operation issues the cell's transfers at once and ends when all have ended. The clock is
        the host's; for NCCL it stops once the GPU has done all, as nccl-tests does it.
        """
        messages = self._messages(cell)
        self._settle()
        self._group.barrier()
        began = time.perf_counter()
        for _ in range(inner):
            self._run(messages)
        self._settle()
        return (time.perf_counter() - began) / inner

    def _messages(self, cell: Cell) -> list[Any]:
        elements = cell.size_bytes // self._element.bytes
        return [self._buffer[i * elements : (i + 1) * elements] for i in range(cell.concurrent)]

    def _run(self, messages: list[Any]) -> None:
        distributed = self._torch.distributed
        works = [
            distributed.all_reduce(message, group=self._group.measured, async_op=True)
            for message in messages
        ]
        for work in works:
            work.wait()

    def _settle(self) -> None:
        if self._group.backend is Backend.NCCL:
            self._torch.cuda.synchronize(self._group.device)

    def _tolerance(self, world: int) -> float:
        epsilon = float(self._torch.finfo(self._type).eps)
        return 0.0 if 2 * world <= 2 / epsilon else 2 * world * world * epsilon


def _free_bytes() -> float:
    """Returns the bytes that this host can still give; infinite where it does not say."""
    if not _MEMORY.exists():
        return float("inf")
    for line in _MEMORY.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024.0
    return float("inf")
