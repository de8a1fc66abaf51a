"""Samples as columns, and the points of one curve: what every model of this room learns from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from srifty.core.allreduce import AllreduceSample, Collective, CurveKey

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
_Value = TypeVar("_Value", bound=Hashable)

# From this size on messages are large: bandwidth, not latency, decides how long they take.
LARGE_BYTES = 1024**2
# A sample this much older than the newest of its curve counts half.
DEFAULT_HALF_LIFE_DAYS = 180.0
_SECONDS_PER_DAY = 86_400.0


class Place(NamedTuple):
    """Where samples were taken; `placement_group` is `yes`, `no` or empty."""

    cloud: str
    region: str
    zone: str
    gpu: str
    placement_group: str


@dataclass(frozen=True)
class SampleTable:
    """Samples (or questions, whose times are NaN) as columns; P rows.

    Attributes:
        curves: the curves that occur.
        places: the places that occur.
        allocations: the allocations that occur; see `AllreduceSample.allocation`.
        curve: (P,) index into `curves`.
        place: (P,) index into `places`.
        allocation: (P,) index into `allocations`.
        world_size: (P,) ranks.
        vms: (P,) VMs.
        size_bytes: (P,) message size.
        concurrent: (P,) transfers at the same time.
        time_s: (P,) seconds.
        weight: (P,) how much a sample counts: 1 when fresh, less with age.
    """

    curves: tuple[CurveKey, ...]
    places: tuple[Place, ...]
    allocations: tuple[tuple[str, str], ...]
    curve: IntArray
    place: IntArray
    allocation: IntArray
    world_size: IntArray
    vms: IntArray
    size_bytes: FloatArray
    concurrent: IntArray
    time_s: FloatArray
    weight: FloatArray

    @classmethod
    def of(
        cls,
        samples: Sequence[AllreduceSample],
        *,
        half_life_days: float = DEFAULT_HALF_LIFE_DAYS,
    ) -> Self:
        """Returns the samples that models learn from as columns.

        Args:
            samples: measured collectives.
            half_life_days: age against the newest of its curve at which a sample counts half.
                Samples without a date count as new.
        """
        kept = learnable(samples)
        curves, curve = _codes([s.curve for s in kept])
        places, place = _codes([_place(s) for s in kept])
        allocations, allocation = _codes([s.allocation for s in kept])
        return cls(
            curves=curves,
            places=places,
            allocations=allocations,
            curve=curve,
            place=place,
            allocation=allocation,
            world_size=np.array([s.world_size for s in kept], dtype=np.int64),
            vms=np.array([s.vms for s in kept], dtype=np.int64),
            size_bytes=np.array([s.size_bytes for s in kept], dtype=np.float64),
            concurrent=np.array([s.concurrent for s in kept], dtype=np.int64),
            time_s=np.array([s.time_s for s in kept], dtype=np.float64),
            weight=_freshness(kept, curve, half_life_days),
        )

    @classmethod
    def ask(
        cls,
        curve: CurveKey,
        place: Place,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Self:
        """Returns (P,) questions about points of a curve."""
        count = len(size_bytes)
        first = np.zeros(count, dtype=np.int64)
        return cls(
            curves=(curve,),
            places=(place,),
            allocations=(("", ""),),
            curve=first,
            place=first,
            allocation=first,
            world_size=np.asarray(world_size, dtype=np.int64),
            vms=np.asarray(vms, dtype=np.int64),
            size_bytes=np.asarray(size_bytes, dtype=np.float64),
            concurrent=np.ones(count, dtype=np.int64),
            time_s=np.full(count, np.nan),
            weight=np.ones(count),
        )

    def __len__(self) -> int:
        return len(self.curve)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Returns the chosen rows; curves, places and allocations keep their numbers."""
        return replace(
            self,
            curve=self.curve[rows],
            place=self.place[rows],
            allocation=self.allocation[rows],
            world_size=self.world_size[rows],
            vms=self.vms[rows],
            size_bytes=self.size_bytes[rows],
            concurrent=self.concurrent[rows],
            time_s=self.time_s[rows],
            weight=self.weight[rows],
        )

    def questions(self) -> Self:
        """Returns the same rows without what was measured."""
        return replace(self, time_s=np.full(len(self), np.nan))


@dataclass(frozen=True)
class Points:
    """The distinct points of one curve at one link level; repeats are merged. M points.

    Attributes:
        world_size: (M,) ranks.
        vms: (M,) VMs: all 1 (links inside) or all more than 1 (links between VMs).
        size_bytes: (M,) message size.
        log_time: (M,) natural logarithm of the median seconds.
        repeats: (M,) how many samples were merged, by their weight.
    """

    world_size: FloatArray
    vms: FloatArray
    size_bytes: FloatArray
    log_time: FloatArray
    repeats: FloatArray

    @classmethod
    def of(cls, table: SampleTable, curve: int, *, between: bool) -> Self:
        """Merges the rows of a curve that ran one transfer at a time.

        Args:
            table: measured samples.
            curve: index of the curve.
            between: the worlds of several VMs, or those of one.
        """
        rows = (table.curve == curve) & (table.concurrent == 1) & ((table.vms > 1) == between)
        here = table.take(rows)
        keys = np.stack([here.world_size, here.vms, here.size_bytes], axis=1)
        distinct, group = np.unique(keys, axis=0, return_inverse=True)
        group = group.reshape(-1)
        log_time = np.log(here.time_s)
        merged = np.array(
            [
                _weighted_median(log_time[group == g], here.weight[group == g])
                for g in range(len(distinct))
            ]
        )
        repeats = np.bincount(group, weights=here.weight, minlength=len(distinct))
        return cls(
            world_size=distinct[:, 0].astype(np.float64),
            vms=distinct[:, 1].astype(np.float64),
            size_bytes=distinct[:, 2].astype(np.float64),
            log_time=merged,
            repeats=repeats.astype(np.float64),
        )

    def __len__(self) -> int:
        return len(self.log_time)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """Returns the chosen points."""
        return type(self)(
            world_size=self.world_size[rows],
            vms=self.vms[rows],
            size_bytes=self.size_bytes[rows],
            log_time=self.log_time[rows],
            repeats=self.repeats[rows],
        )

    def worlds(self) -> list[tuple[int, int]]:
        """Returns the distinct (world size, VMs), in ascending order."""
        return sorted({(int(n), int(v)) for n, v in zip(self.world_size, self.vms, strict=True)})

    def of_world(self, world_size: int, vms: int) -> Self:
        """Returns the points of one world, by ascending size."""
        here = self.take((self.world_size == world_size) & (self.vms == vms))
        return here.take(np.argsort(here.size_bytes))

    def outliers(self) -> BoolArray:
        """Marks single readings that stand far off both neighbours while these agree.

        A hiccup in a log (2x at one size) must not bend a curve. Where the neighbours differ from
        each other too, the curve itself is rough; what repeats confirm is no hiccup; of two marked
        neighbours only the one farther off is.
        """
        excess = np.zeros(len(self))
        for world_size, vms in self.worlds():
            here = np.flatnonzero((self.world_size == world_size) & (self.vms == vms))
            here = here[np.argsort(self.size_bytes[here])]
            if len(here) < _LEAST_FOR_OUTLIERS:
                continue
            x, y = np.log(self.size_bytes[here]), self.log_time[here]
            share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
            residual = np.abs(y[1:-1] - ((1 - share) * y[:-2] + share * y[2:]))
            ratio = np.zeros(len(here))
            ratio[1:-1] = residual / (np.abs(y[2:] - y[:-2]) / 2 + _AGREEMENT)
            ratio[self.repeats[here] > 1] = 0.0
            beaten = np.zeros(len(here), dtype=np.bool_)
            beaten[1:] |= ratio[:-1] > ratio[1:]
            beaten[:-1] |= ratio[1:] > ratio[:-1]
            excess[here] = np.where(beaten, 0.0, ratio)
        return excess > _OUTLIER_FACTOR


_LEAST_FOR_OUTLIERS = 5
_OUTLIER_FACTOR = 4.0
_AGREEMENT = 0.05  # neighbours within 10 % of each other agree as well as repeats ever do


def bus_bytes_of(size_bytes: FloatArray, world_size: FloatArray | IntArray) -> FloatArray:
    """Returns bus bytes `2 s (n−1) / n` of allreduces: what each rank's link carries."""
    return 2 * size_bytes * (world_size - 1) / world_size


def learnable(samples: Sequence[AllreduceSample]) -> list[AllreduceSample]:
    """Returns the allreduces that models learn from.

    A log prints every size out of place and in place; the latter is left out there, since each
    measurement would count twice.
    """
    reduces = [s for s in samples if s.collective is Collective.ALL_REDUCE]
    out_of_place = {_measurement(s) for s in reduces if not s.in_place}
    return [s for s in reduces if not s.in_place or _measurement(s) not in out_of_place]


def _measurement(sample: AllreduceSample) -> Hashable:
    return (
        sample.curve,
        sample.source,
        sample.run,
        sample.world_size,
        sample.vms,
        sample.size_bytes,
        sample.concurrent,
    )


def _place(sample: AllreduceSample) -> Place:
    group = {True: "yes", False: "no", None: ""}[sample.placement_group]
    return Place(sample.cloud, sample.region, sample.zone, sample.gpu, group)


def _codes(values: Sequence[_Value]) -> tuple[tuple[_Value, ...], IntArray]:
    """Returns the distinct values in order of appearance, and each value's number."""
    numbers: dict[_Value, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return tuple(numbers), np.array(codes, dtype=np.int64)


def _freshness(
    samples: Sequence[AllreduceSample], curve: IntArray, half_life_days: float
) -> FloatArray:
    """Returns weights that halve with every half-life of age against the curve's newest sample."""
    stamps = np.array(
        [np.nan if s.measured_at is None else s.measured_at.timestamp() for s in samples],
        dtype=np.float64,
    )
    weight = np.ones(len(samples))
    for number in np.unique(curve):
        here = np.flatnonzero((curve == number) & np.isfinite(stamps))
        if here.size:
            age_days = (stamps[here].max() - stamps[here]) / _SECONDS_PER_DAY
            weight[here] = np.maximum(0.5 ** (age_days / half_life_days), 1e-6)
    return weight


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Returns the median; the mean of the two middle values where they tie."""
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / np.sum(weights)
    low = int(np.searchsorted(share, 0.5 - 1e-9))
    high = int(np.searchsorted(share, 0.5 + 1e-9))
    return float((values[order][low] + values[order][min(high, len(values) - 1)]) / 2)
