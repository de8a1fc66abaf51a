"""Grouped splits of samples: what is held out together, so that a score means something."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.table import SampleTable

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# A new world size is probed at the measured sizes nearest to these.
PROBE_SIZES_BYTES = (4 * 1024, 1024**2, 256 * 1024**2)
_FOLDS = 5


class By(StrEnum):
    """How samples are held out.

    Worlds of one VM never take part except by curve, allocation and at random: NVLink says nothing
    of the network.
    """

    WORLD_SIZE = "world-size"
    LARGEST_WORLD_SIZE = "largest-world-size"
    CURVE = "curve"
    ALLOCATION = "allocation"
    RANDOM = "random"


class Split(NamedTuple):
    """One experiment.

    Attributes:
        train: (P,) rows that may be learned from.
        test: (P,) rows that are scored; never overlaps `train`.
    """

    train: BoolArray
    test: BoolArray


def splits(table: SampleTable, by: By, *, probes: bool = True, seed: int = 0) -> Iterator[Split]:
    """Yields the splits of a kind.

    Args:
        table: measured samples.
        by: what is held out together. By world size: every multi-VM world that has a smaller and a
            larger one in its curve. By largest world size: the largest multi-VM world of each
            curve that has another.
        probes: whether three sizes of the largest world may be learned from (they are not scored).
        seed: of the random split.
    """
    alone = table.concurrent == 1
    match by:
        case By.WORLD_SIZE:
            for curve, worlds in _multi_vm_worlds(table):
                for world_size in worlds[1:-1]:
                    test = curve & (table.world_size == world_size)
                    yield Split(~test, test & alone)
        case By.LARGEST_WORLD_SIZE:
            for curve, worlds in _multi_vm_worlds(table):
                if len(worlds) > 1:
                    yield largest(table, curve, worlds[-1], probes=probes)
        case By.CURVE:
            for number in range(len(table.curves)):
                test = table.curve == number
                if test.any():
                    yield Split(~test, test & alone)
        case By.ALLOCATION:
            yield from _allocations(table)
        case By.RANDOM:
            fold = np.random.default_rng(seed).integers(_FOLDS, size=len(table))
            for number in range(_FOLDS):
                test = fold == number
                yield Split(~test, test & alone)


def largest(table: SampleTable, curve: BoolArray, world_size: int, *, probes: bool) -> Split:
    """Returns the split that holds out a world of a curve and everything beyond it."""
    held_out = curve & (table.world_size >= world_size)
    test = curve & (table.world_size == world_size)
    probe = np.zeros(len(table), dtype=np.bool_)
    if probes:
        probe = test & np.isin(table.size_bytes, probe_sizes(table.size_bytes[test]))
    return Split(~held_out | probe, test & ~probe & (table.concurrent == 1))


def probe_sizes(size_bytes: FloatArray) -> FloatArray:
    """Returns the sizes nearest to the three probes, among those that were measured."""
    measured = np.unique(size_bytes)
    return np.unique(
        [measured[np.argmin(np.abs(np.log(measured / probe)))] for probe in PROBE_SIZES_BYTES]
    )


def folds_inside(table: SampleTable) -> Iterator[Split]:
    """Yields splits that each hold out one inner world of every curve: for choosing a model."""
    yield from _folds(table, [worlds[1:-1] for _, worlds in _multi_vm_worlds(table)], None)


def folds_outside(table: SampleTable, *, probes: bool) -> Iterator[Split]:
    """Yields splits that each hold out the upper end of every curve: for choosing a model."""
    upper = [worlds[:0:-1] for _, worlds in _multi_vm_worlds(table)]
    yield from _folds(table, upper, probes)


def folds_by_curve(table: SampleTable) -> Iterator[Split]:
    """Yields splits that each hold out a few whole curves: for choosing a model."""
    for number in range(_FOLDS):
        test = table.curve % _FOLDS == number
        if test.any() and not test.all():
            yield Split(~test, test & (table.concurrent == 1))


def _folds(table: SampleTable, choices: list[list[int]], probes: bool | None) -> Iterator[Split]:
    """Yields one split per rank of choice; `probes` None holds out single worlds."""
    curves = [curve for curve, _ in _multi_vm_worlds(table)]
    for rank in range(min(max(map(len, choices), default=0), _FOLDS)):
        train = np.ones(len(table), dtype=np.bool_)
        test = np.zeros(len(table), dtype=np.bool_)
        for curve, worlds in zip(curves, choices, strict=True):
            if rank >= len(worlds):
                continue
            if probes is None:
                held_out = curve & (table.world_size == worlds[rank])
                one = Split(~held_out, held_out & (table.concurrent == 1))
            else:
                one = largest(table, curve, worlds[rank], probes=probes)
            train &= one.train
            test |= one.test
        yield Split(train, test)


def _multi_vm_worlds(table: SampleTable) -> list[tuple[BoolArray, list[int]]]:
    """Returns the multi-VM rows of each curve and its world sizes, ascending."""
    rows = [(table.curve == number) & (table.vms > 1) for number in range(len(table.curves))]
    return [
        (curve, sorted({int(n) for n in table.world_size[curve]})) for curve in rows if curve.any()
    ]


def _allocations(table: SampleTable) -> Iterator[Split]:
    """Yields each allocation whose worlds other allocations measured, too."""
    worlds = np.stack([table.curve, table.world_size, table.vms], axis=1)
    for number in range(len(table.allocations)):
        here = table.allocation == number
        others = {tuple(row) for row in worlds[~here].tolist()}
        again = np.array([tuple(row) in others for row in worlds.tolist()], dtype=np.bool_)
        test = here & again & (table.concurrent == 1)
        if test.any():
            yield Split(~here, test)
