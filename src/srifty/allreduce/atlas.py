"""Which measured curve answers a question, and how far the question lies from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.table import LARGE_BYTES, Points, SampleTable
from srifty.core.allreduce import CurveKey
from srifty.core.hardware import InstanceType, family_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Repeats of one configuration on public clouds differ by about 10 % at 1 MiB and above (GCP V100
# VMs, public nccl-tests logs); used where the samples hold fewer allocations than this.
_ALLOCATION_FRACTION = 0.10
_LEAST_ALLOCATIONS = 3
# Messages of which one tells an allocation's bandwidth at all.
_LEAST_LARGE_BYTES = 64 * 1024
_OCTAVES_NEAR = 0.5  # a size within half an octave of a measured one counts as measured


class Origin(IntEnum):
    """What an answer rests on; the order is the order in which a basis is looked for."""

    MEASURED = 0  # this very world, at sizes like these
    PROBED = 1  # this very world, at other sizes
    INSIDE = 2  # between measured worlds of the curve
    OUTSIDE = 3  # the curve, beyond its worlds or sizes
    SIBLING = 4  # another curve of the instance type (transport, version, settings)
    FAMILY = 5  # a relative of the instance type, scaled by the rated speeds
    FIGURES = 6  # the instance type's network figures
    NOTHING = 7  # nothing at all


class Sheet(NamedTuple):
    """One measured curve at one link level."""

    curve: CurveKey
    between: bool


class Basis(NamedTuple):
    """What answers the questions about one curve in one world.

    Attributes:
        sheet: the measured curve; None where there is none.
        size_factor: the answer for `s` bytes is the sheet's for `s * size_factor`: a relative with
            twice the rated speed takes as long for twice the bytes.
        origin: how near it is, sizes aside.
    """

    sheet: Sheet | None
    size_factor: float
    origin: Origin


@dataclass(frozen=True)
class Atlas:
    """Every measured curve by its link level.

    Attributes:
        sheets: the points of each.
        gpus: GPU model of each instance type, where the samples say.
        gains: how much more several transfers move together than one alone, where measured.
        allocation_fraction: standard deviation between allocations, as a fraction of the time.
        slow_vms: by how much the mean of allocations' times exceeds their median for each e-fold
            of VMs, a fraction: a few VMs' links are slow, the slowest one counts, and the more VMs
            there are, the likelier one is among them.
        types: instance types that are known, by name.
    """

    sheets: Mapping[Sheet, Points]
    gpus: Mapping[str, str]
    gains: Mapping[Sheet, float]
    allocation_fraction: float
    slow_vms: float
    types: Mapping[str, InstanceType]

    @classmethod
    def of(cls, table: SampleTable, types: Mapping[str, InstanceType]) -> Self:
        """Returns the atlas of measured samples."""
        sheets: dict[Sheet, Points] = {}
        for number, curve in enumerate(table.curves):
            for between in (False, True):
                points = Points.of(table, number, between=between)
                if len(points):
                    sheets[Sheet(curve, between)] = points
        pairs = np.unique(np.stack([table.curve, table.place], axis=1), axis=0)
        named = [(table.curves[int(c)].instance_type, table.places[int(p)].gpu) for c, p in pairs]
        return cls(
            sheets,
            {kind: gpu for kind, gpu in named if gpu},
            _concurrency_gains(table),
            *_between_allocations(table),
            types,
        )

    def basis(self, curve: CurveKey, world_size: int, vms: int) -> Basis:
        """Returns what answers for a world of a curve."""
        own = Sheet(curve, vms > 1)
        if own in self.sheets:
            return Basis(own, 1.0, self._nearness(own, world_size, vms))
        siblings = [(sheet, 1.0) for sheet in self._siblings(own)]
        relatives = self.relatives(curve.instance_type, between=own.between)
        for origin, stand_ins in ((Origin.SIBLING, siblings), (Origin.FAMILY, relatives)):
            if stand_ins:
                sheet, factor = min(
                    stand_ins, key=lambda one: self._rank(one[0], own, world_size, vms)
                )
                return Basis(sheet, factor, origin)
        known = curve.instance_type in self.types
        return Basis(None, 1.0, Origin.FIGURES if known else Origin.NOTHING)

    def origins(
        self, basis: Basis, world_size: int, vms: int, size_bytes: FloatArray
    ) -> NDArray[np.int64]:
        """Returns (K,) what the answers for each size of a world rest on."""
        origin = np.full(len(size_bytes), int(basis.origin))
        if basis.sheet is None:
            return origin
        octave = np.log2(size_bytes)
        if basis.origin is Origin.MEASURED:
            here = np.log2(self.sheets[basis.sheet].of_world(world_size, vms).size_bytes)
            gap = np.abs(octave[:, None] - here).min(axis=1)
            origin[gap > _OCTAVES_NEAR] = Origin.PROBED
        low, high = self._octaves[basis.sheet]
        beyond = (octave < low - _OCTAVES_NEAR) | (octave > high + _OCTAVES_NEAR)
        return np.where(beyond, np.maximum(origin, int(Origin.OUTSIDE)), origin)

    @cached_property
    def _octaves(self) -> dict[Sheet, tuple[float, float]]:
        return {
            sheet: (float(np.log2(p.size_bytes.min())), float(np.log2(p.size_bytes.max())))
            for sheet, p in self.sheets.items()
        }

    @cached_property
    def _worlds(self) -> dict[Sheet, list[tuple[int, int]]]:
        return {sheet: points.worlds() for sheet, points in self.sheets.items()}

    def relatives(self, kind: str, *, between: bool) -> list[tuple[Sheet, float]]:
        """Returns the curves of a type's family that ran on its GPU model, nearest speed first.

        Each comes with the size factor of `Basis`, by the rated speeds between VMs; links inside
        differ by nothing that is rated.
        """
        gpu, speed = self._gpu(kind), self._speed(kind)
        found = [
            (sheet, self._speed(sheet.curve.instance_type) / speed if between else 1.0)
            for sheet in self.sheets
            if sheet.between == between
            and sheet.curve.instance_type != kind
            and family_of(sheet.curve.instance_type) == family_of(kind)
            and (not gpu or self._gpu(sheet.curve.instance_type) in ("", gpu))
        ]
        usable = [(sheet, factor if np.isfinite(factor) else 1.0) for sheet, factor in found]
        return sorted(usable, key=lambda one: abs(np.log(one[1])))

    def distance(self, sheet: Sheet, world_size: int, vms: int) -> float:
        """Returns how many doublings of VMs and of ranks per VM lie to the nearest world."""
        return min(
            abs(float(np.log2(v / vms))) + abs(float(np.log2(n * vms / (v * world_size))))
            for n, v in self._worlds[sheet]
        )

    def _nearness(self, sheet: Sheet, world_size: int, vms: int) -> Origin:
        worlds = self._worlds[sheet]
        if (world_size, vms) in worlds:
            return Origin.MEASURED
        per_vm = world_size / vms
        alike = [n for n, v in worlds if n / v == per_vm]
        inside = bool(alike) and min(alike) < world_size < max(alike)
        return Origin.INSIDE if inside else Origin.OUTSIDE

    def _siblings(self, own: Sheet) -> list[Sheet]:
        return [
            sheet
            for sheet in self.sheets
            if sheet.between == own.between
            and sheet.curve.instance_type == own.curve.instance_type
            and sheet.curve != own.curve
        ]

    def _gpu(self, kind: str) -> str:
        known = self.types.get(kind)
        return known.gpu if known else self.gpus.get(kind, "")

    def _speed(self, kind: str) -> float:
        known = self.types.get(kind)
        return known.rated_gbit_per_s if known else np.nan

    def _rank(
        self, sheet: Sheet, own: Sheet, world_size: int, vms: int
    ) -> tuple[bool, bool, float, int]:
        """Returns what makes one stand-in better than another: smaller is better."""
        return (
            sheet.curve.transport != own.curve.transport,
            sheet.curve.library_version != own.curve.library_version,
            self.distance(sheet, world_size, vms),
            -len(self.sheets[sheet]),
        )


def worlds_of(questions: SampleTable) -> Iterator[tuple[CurveKey, int, int, IntArray]]:
    """Yields each (curve, world size, VMs) that is asked about, with the numbers of its rows."""
    if not len(questions):
        return
    columns = (questions.vms, questions.world_size, questions.curve)
    order = np.lexsort(columns)
    differs = np.any([np.diff(column[order], prepend=-1) != 0 for column in columns], axis=0)
    for rows in np.split(order, np.flatnonzero(differs)[1:]):
        first = rows[0]
        curve = questions.curves[int(questions.curve[first])]
        yield curve, int(questions.world_size[first]), int(questions.vms[first]), rows


def _concurrency_gains(table: SampleTable) -> Mapping[Sheet, float]:
    """Returns how much more several transfers move together than one alone, where measured.

    Only messages of 1 MiB and more count: small ones gain by overlapping their latencies.
    """
    large = table.size_bytes >= LARGE_BYTES
    gains: dict[Sheet, float] = {}
    for number, curve in enumerate(table.curves):
        for between in (False, True):
            here = (table.curve == number) & large & ((table.vms > 1) == between)
            ratios: list[float] = []
            keys = np.stack([table.world_size, table.vms, table.size_bytes], axis=1)
            for key in np.unique(keys[here & (table.concurrent > 1)], axis=0):
                same = here & (keys == key).all(axis=1)
                alone = table.time_s[same & (table.concurrent == 1)]
                together = same & (table.concurrent > 1)
                if alone.size:
                    per_transfer = table.time_s[together] / table.concurrent[together]
                    ratios.append(float(np.median(alone) / np.median(per_transfer)))
            if ratios:
                gains[Sheet(curve, between)] = max(float(np.median(ratios)), 1.0)
    return gains


def _between_allocations(table: SampleTable) -> tuple[float, float]:
    """Returns how allocations differ where large: `allocation_fraction` and `slow_vms`.

    The spread is the standard deviation of the logarithm of an allocation's times.
    """
    here = table.take((table.concurrent == 1) & (table.vms > 1))
    keys = np.stack([here.curve, here.world_size, here.vms], axis=1)
    variances: list[float] = []
    excess: list[float] = []
    log_vms: list[float] = []
    for key in np.unique(keys, axis=0):
        effects = _effects(here.take((keys == key).all(axis=1)))
        if len(effects) >= _LEAST_ALLOCATIONS:
            factors = np.exp(effects)
            variances.append(float(np.var(effects, ddof=1)))
            excess.append(float(np.mean(factors) / np.median(factors)) - 1)
            log_vms.append(float(np.log(key[2])))
    if not variances:
        return _ALLOCATION_FRACTION, 0.0
    # A line through one VM, where nothing is exceeded.
    slope = float(np.dot(excess, log_vms) / np.dot(log_vms, log_vms))
    return float(np.sqrt(np.mean(variances))), max(slope, 0.0)


def _effects(world: SampleTable) -> FloatArray:
    """Returns (A,) the logarithm of each allocation's times in one world over all allocations'.

    A probe that runs out of time measures fewer sizes on slow VMs: were allocations compared at the
    largest sizes alone, the slow ones would be missing. So all count from the largest size that
    every allocation has, at most 1 MiB; one that has no large message at all is left out.
    """
    largest = {
        int(a): float(world.size_bytes[world.allocation == a].max())
        for a in np.unique(world.allocation)
    }
    known = [a for a, size in largest.items() if size >= _LEAST_LARGE_BYTES]
    if not known:
        return np.zeros(0)
    least = min(LARGE_BYTES, *(largest[a] for a in known))
    found: dict[int, list[float]] = {a: [] for a in known}
    for size in np.unique(world.size_bytes[world.size_bytes >= least]):
        here = world.size_bytes == size
        each = {
            a: float(np.log(np.median(world.time_s[here & (world.allocation == a)])))
            for a in known
            if np.any(here & (world.allocation == a))
        }
        middle = float(np.median(list(each.values())))
        for a, log_time in each.items():
            found[a].append(log_time - middle)
    return np.array([np.median(of_sizes) for of_sizes in found.values()])
