"""A worker's part of the global batch. Pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from srifty.core._checks import require, require_count
from srifty.errors import InputError


@dataclass(frozen=True)
class Share:
    """What one worker does in each global step, and what the others do beside it.

    Attributes:
        rank: of this worker, from 0.
        local_batches: samples of each worker in one global step, by rank; at least 1 each.
        accumulations: forward/backward passes of each worker in one global step, by rank.
    """

    rank: int
    local_batches: tuple[int, ...]
    accumulations: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.local_batches or len(self.local_batches) != len(self.accumulations):
            raise InputError(
                f"a share needs a local batch and an accumulation for each worker, not "
                f"{len(self.local_batches)} and {len(self.accumulations)} of them"
            )
        if not 0 <= self.rank < len(self.local_batches):
            raise InputError(
                f"rank must lie between 0 and {len(self.local_batches) - 1}, not {self.rank}"
            )
        for rank, samples in enumerate(self.local_batches):
            passes = self.accumulations[rank]
            require_count(f"worker {rank}: samples", samples)
            require_count(f"worker {rank}: passes", passes)
            require(
                passes <= samples,
                f"worker {rank}: {samples} samples cannot be done in {passes} passes",
            )

    @classmethod
    def of(cls, *local_batches: int, rank: int = 0) -> Self:
        """Returns the share of a worker among those with these local batches, one pass each."""
        return cls(rank, tuple(local_batches), (1,) * len(local_batches))

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return len(self.local_batches)

    @cached_property
    def global_batch(self) -> int:
        """Samples of one global step, all workers together (B)."""
        return sum(self.local_batches)

    @property
    def local_batch(self) -> int:
        """Samples of this worker in one global step (b_i)."""
        return self.local_batches[self.rank]

    @property
    def accumulation(self) -> int:
        """Forward/backward passes of this worker in one global step."""
        return self.accumulations[self.rank]

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """Samples of each of this worker's passes, largest first; they sum to `local_batch`."""
        least, extra = divmod(self.local_batch, self.accumulation)
        return (least + 1,) * extra + (least,) * (self.accumulation - extra)

    @cached_property
    def start(self) -> int:
        """Place of this worker's first sample within the global batch: workers follow by rank."""
        return sum(self.local_batches[: self.rank])

    @property
    def parts(self) -> tuple[slice, ...]:
        """Places within the global batch of the samples of each of this worker's passes."""
        ends = list(itertools.accumulate(self.micro_batches, initial=self.start))
        return tuple(slice(first, last) for first, last in itertools.pairwise(ends))

    @property
    def is_even(self) -> bool:
        """Whether all workers do the same: as many samples, in as many passes."""
        return len(set(zip(self.local_batches, self.accumulations, strict=True))) == 1

    @property
    def passes_differ(self) -> bool:
        """Whether some workers make more passes than others."""
        return len(set(self.accumulations)) > 1

    def of_rank(self, rank: int) -> Share:
        """Returns what another worker does."""
        return replace(self, rank=rank)
