"""Partial configurations of a search, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SmallArray = NDArray[np.int32]


@dataclass(frozen=True)
class Nodes:
    """N partial configurations: groups of equal workers, slowest first.

    What is left of the global batch is a range where a group is open: its workers take what the
    others leave. A node whose range holds 0 is a whole configuration.

    Attributes:
        option: (N, D) option of each group; −1: none.
        workers: (N, D) its workers.
        depth: (N,) groups.
        least_left: (N,) samples that other groups must take at least,
        most_left: (N,) and at most.
        used: (N,) bits of the types that are used.
        has_open: (N,) whether a group is open.
        usd_per_hour: (N,) price of the groups.
        world_size: (N,) workers of all groups.
        vms: (N,) their VMs.
        compute_s: (N,) end of the slowest worker's passes, at least.
        optimizer_s: (N,) slowest optimizer step of the groups.
        input_s: (N,) slowest loader of the groups.
        bound: (N,) no configuration that a node can become has a smaller objective.
        least_usd_per_hour: (N,) nor a lower price.
        slack_usd_per_hour: (N,) by how much its price may rise before it is of no use.
        usd_per_sample: (N,) price that the last of the samples left saves, at most.
    """

    option: SmallArray
    workers: SmallArray
    depth: SmallArray
    least_left: IntArray
    most_left: IntArray
    used: IntArray
    has_open: BoolArray
    usd_per_hour: FloatArray
    world_size: IntArray
    vms: IntArray
    compute_s: FloatArray
    optimizer_s: FloatArray
    input_s: FloatArray
    bound: FloatArray
    least_usd_per_hour: FloatArray
    slack_usd_per_hour: FloatArray
    usd_per_sample: FloatArray

    def __len__(self) -> int:
        return len(self.depth)

    @classmethod
    def root(cls, global_batch: int, depth: int) -> Self:
        """Returns the node without groups."""

        def one(value: float) -> FloatArray:
            return np.full(1, value, dtype=np.float64)

        def number(value: int) -> IntArray:
            return np.full(1, value, dtype=np.int64)

        return cls(
            option=np.full((1, depth), -1, dtype=np.int32),
            workers=np.zeros((1, depth), dtype=np.int32),
            depth=np.zeros(1, dtype=np.int32),
            least_left=number(global_batch),
            most_left=number(global_batch),
            used=number(0),
            has_open=np.zeros(1, dtype=np.bool_),
            usd_per_hour=one(0.0),
            world_size=number(0),
            vms=number(0),
            compute_s=one(0.0),
            optimizer_s=one(0.0),
            input_s=one(0.0),
            bound=one(0.0),
            least_usd_per_hour=one(0.0),
            slack_usd_per_hour=one(np.inf),
            usd_per_sample=one(0.0),
        )

    @property
    def is_whole(self) -> BoolArray:
        """(N,) whether no other group is needed."""
        return (self.least_left <= 0) & (self.most_left >= 0)

    def take(self, rows: IntArray | BoolArray) -> Nodes:
        """Returns some nodes."""
        return Nodes(*(getattr(self, field.name)[rows] for field in fields(Nodes)))

    @classmethod
    def concatenate(cls, parts: Sequence[Nodes]) -> Nodes:
        """Returns the nodes of several arrays in one; at least one array."""
        if len(parts) == 1:
            return parts[0]
        return Nodes(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(Nodes)
            )
        )
