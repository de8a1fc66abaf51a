"""Global batches from a stream: samples that come in an order of their own, without numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from srifty._torch import torch
from srifty.errors import InputError
from srifty.training.share import Share

_data: Any = torch.utils.data


class GlobalBatchStream(_data.IterableDataset):
    """Deals a stream's samples to the workers, each global step the same whatever the cluster.

    Give it to `DataLoader(stream, batch_size=None, num_workers=...)`; its items are batches, one
    for each pass of this worker. Every worker opens the same stream and leaves out what is others';
    so the stream should yield samples as they lie (bytes, paths), and `decode` should do the work.

    Args:
        open_at: called with a place, opens the stream there; it must give the same samples in the
            same order each time (shuffled by a seed, if at all). Where it can seek, a resume costs
            no replay.
        share: of this worker.
        collate: makes a batch of a list of decoded samples; torch's own if left out.
        decode: makes a training sample of what the stream yields; is called for own samples only.
        steps: global steps of the whole training; None to go to the stream's end, where samples
            that do not fill a global batch are left out.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        open_at: Callable[[int], Iterator[Any]],
        share: Share,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        steps: int | None = None,
    ) -> None:
        super().__init__()
        if steps is not None and steps < 1:
            raise InputError(f"steps must be 1 or more, not {steps}")
        self.share = share
        self.total_steps = steps
        self._open_at = open_at
        self._collate = _data.default_collate if collate is None else collate
        self._decode = decode
        self._next = 0

    def start_at(self, step: int) -> None:
        """Has the next iteration begin at a global step.

        Raises:
            InputError: the step lies outside the training.
        """
        if step < 0 or (self.total_steps is not None and step > self.total_steps):
            raise InputError(f"step {step} is outside this training of {self.total_steps} steps")
        self._next = step

    @property
    def next_step(self) -> int:
        """The global step that the next iteration begins with."""
        return self._next

    def size_at(self, step: int) -> int:
        """Returns the samples of a global step."""
        del step
        return self.share.global_batch

    @property
    def identity(self) -> dict[str, int | str | bool]:
        """What must stay the same when a training goes on on other workers."""
        return {"global_batch": self.share.global_batch}

    def __iter__(self) -> Iterator[Any]:
        # A DataLoader's processes take turns: item i comes from process i modulo their number.
        info = _data.get_worker_info()
        turn, turns = (0, 1) if info is None else (info.id, info.num_workers)
        batch = self.share.global_batch
        stream = self._open_at(self._next * batch)
        items = itertools.count()
        for step in itertools.count(self._next):
            raw = [] if step == self.total_steps else list(itertools.islice(stream, batch))
            if len(raw) < batch:
                return
            for part in self.share.parts:
                if next(items) % turns == turn:
                    own = raw[part]
                    yield self._collate(own if self._decode is None else [*map(self._decode, own)])
