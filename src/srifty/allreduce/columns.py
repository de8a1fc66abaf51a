"""Samples as arrays, for models that fit many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.core.allreduce import AllreduceSample

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# The texts of a sample: each becomes codes and the names that they stand for.
CATEGORIES = (
    "collective", "instance_type", "cloud", "gpu", "region", "zone", "transport",
    "library_version", "config", "dtype", "source", "run",
)  # fmt: skip
# Whether VMs shared a placement group, as a number.
PLACEMENT = {None: -1, False: 0, True: 1}


@dataclass(frozen=True, slots=True, eq=False)
class SampleColumns:
    """N samples as arrays of length N; see `AllreduceSample` for the fields.

    Attributes:
        vms: number of VMs.
        world_size: number of ranks.
        size_bytes: bytes of the message.
        time_s: seconds that one operation took.
        in_place: whether the buffers were the same on both sides.
        concurrent: how many transfers ran at the same time.
        placement_group: 1 where the VMs shared one, 0 where not, −1 where unknown.
        measured_at_s: seconds since 1970 (UTC); NaN where unknown.
        codes: for each of `CATEGORIES`, indices into its names.
        names: for each of `CATEGORIES`, what its codes stand for.
    """

    vms: IntArray
    world_size: IntArray
    size_bytes: FloatArray
    time_s: FloatArray
    in_place: BoolArray
    concurrent: IntArray
    placement_group: IntArray
    measured_at_s: FloatArray
    codes: Mapping[str, IntArray]
    names: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.time_s)

    def texts(self, category: str) -> list[str]:
        """Returns one of `CATEGORIES` as texts, one per sample."""
        names = self.names[category]
        return [names[code] for code in self.codes[category]]


def columns_of(samples: Sequence[AllreduceSample]) -> SampleColumns:
    """Returns samples as arrays, in their order."""
    coded = {name: code(str(getattr(s, name)) for s in samples) for name in CATEGORIES}
    return SampleColumns(
        vms=np.array([s.vms for s in samples], dtype=np.int64),
        world_size=np.array([s.world_size for s in samples], dtype=np.int64),
        size_bytes=np.array([s.size_bytes for s in samples], dtype=np.float64),
        time_s=np.array([s.time_s for s in samples], dtype=np.float64),
        in_place=np.array([s.in_place for s in samples], dtype=np.bool_),
        concurrent=np.array([s.concurrent for s in samples], dtype=np.int64),
        placement_group=np.array([PLACEMENT[s.placement_group] for s in samples], dtype=np.int64),
        measured_at_s=np.array(
            [np.nan if s.measured_at is None else s.measured_at.timestamp() for s in samples],
            dtype=np.float64,
        ),
        codes={name: codes for name, (codes, _) in coded.items()},
        names={name: names for name, (_, names) in coded.items()},
    )


def code(texts: Iterable[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Returns codes for texts, and the distinct texts in the order of their first appearance."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(text, len(numbers)) for text in texts]
    return np.array(codes, dtype=np.int64), tuple(numbers)
