"""How many bytes of tensors live at once, under fake tensors as under real ones (torch)."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from srifty.profiling._torch import Tensor, torch
from srifty.profiling._torch_counters import TorchDispatchMode, tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts every storage from the operation that makes it until nothing holds it.

    Torch's own tracker does the same by category, but refuses models with frozen weights.

    Attributes:
        now: bytes that live now.
        peak: the most since the last `restart`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Counts tensors that were there before."""
        for tensor in (part for each in tensors for part in _parts(each)):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._known:
                continue
            self._known.add(key)
            size = storage.nbytes()
            self.now += size
            weakref.finalize(storage, self._drop, key, size).atexit = False
        self.peak = max(self.peak, self.now)

    def restart(self) -> None:
        """Forgets the peak so far."""
        self.peak = self.now

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size

    def __torch_dispatch__(  # the name that torch looks for
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.add(leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        return out


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Returns what has memory: a sparse tensor has none but that of its indices and values."""
    return (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,)
