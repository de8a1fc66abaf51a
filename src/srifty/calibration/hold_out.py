"""Which observations may be learned from, and which are then forecast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from srifty.core.observation import Observation

_RANDOM_FOLDS = 5


class HoldOut(StrEnum):
    """What is held out."""

    WORKLOAD = "workload"
    NODES = "nodes"
    RANDOM = "random"


@dataclass(frozen=True)
class Fold:
    """One instance type's rows with several workers, parted.

    Attributes:
        instance_type: its name.
        learned: rows that may be learned from; some have several VMs.
        held: rows with several VMs that are forecast.
    """

    instance_type: str
    learned: tuple[Observation, ...]
    held: tuple[Observation, ...]


def folds(
    observations: Sequence[Observation],
    hold_out: HoldOut,
    *,
    train_max_vms: int,
    seed: int = 0,
) -> tuple[Fold, ...]:
    """Returns the folds of all instance types; each row with several VMs is held at most once.

    Args:
        observations: all rows; those with one worker are passed over.
        hold_out: each workload from the others, larger clusters from smaller ones, or
            random fifths.
        train_max_vms: with `HoldOut.NODES`: the largest clusters that may be learned from.
        seed: of the random parts.
    """
    found: list[Fold] = []
    for kind in dict.fromkeys(row.instance_type for row in observations):
        rows = [r for r in observations if r.instance_type == kind and r.world_size > 1]
        for is_held in _rules(rows, hold_out, train_max_vms, seed):
            inside = [is_held(place, row) for place, row in enumerate(rows)]
            learned = tuple(row for row, held in zip(rows, inside, strict=True) if not held)
            held = tuple(r for r, h in zip(rows, inside, strict=True) if h and r.vms > 1)
            if held and any(row.vms > 1 for row in learned):
                found.append(Fold(kind, learned, held))
    return tuple(found)


_Rule = Callable[[int, Observation], bool]


def _rules(
    rows: Sequence[Observation], hold_out: HoldOut, train_max_vms: int, seed: int
) -> list[_Rule]:
    """Returns one rule per fold: whether the row at a place is held out."""
    if hold_out is HoldOut.NODES:
        return [lambda _, row: row.vms > train_max_vms]
    if hold_out is HoldOut.WORKLOAD:
        names = dict.fromkeys(row.workload for row in rows)
        return [lambda _, row, name=name: row.workload == name for name in names]
    part = np.random.default_rng(seed).integers(_RANDOM_FOLDS, size=len(rows))
    return [
        lambda place, row, fold=fold: row.vms > 1 and int(part[place]) == fold
        for fold in range(_RANDOM_FOLDS)
    ]
