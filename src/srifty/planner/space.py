"""The search space: how the global batch can be dealt to workers.

A *split* says, for each instance type, how many workers it contributes and how many samples they
take together. Within a type local batches are equal; under `BatchRule.ANY` one type's may differ by
one, where its workers do not divide its samples. Workers fill VMs one after the other, so at most
one VM of a type has idle GPUs. The samples always sum to the global batch exactly.

Splits are enumerated type by type; the last type takes what is left, so it is solved for rather
than enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import BatchRule
from srifty.planner.supply import TypeSupply

IntArray = NDArray[np.int64]

# Rows that a search looks at before its space is thinned: a few seconds of simulation.
MOST_ROWS = 100_000
# Pairs of a partial split and the last type's choice that may be looked at for a row: most pairs do
# not sum to the global batch.
_PAIRS_PER_ROW = 50
# Partial splits that the enumeration may hold at a time.
_MOST_STATES = 2_000_000


@dataclass(frozen=True)
class Splits:
    """R splits over T instance types.

    Attributes:
        workers: (R, T) workers of each type; 0: not used.
        samples: (R, T) samples that they take together.
        complete: whether every split of the space is among them.
        thinning: how the space was thinned, in words; empty where it was not.
    """

    workers: IntArray
    samples: IntArray
    complete: bool = True
    thinning: str = ""

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def has_remainder(self) -> NDArray[np.bool_]:
        """(R,) whether some type's local batches differ by one."""
        return (self.samples % np.maximum(self.workers, 1) != 0).any(axis=1)


@dataclass(frozen=True, slots=True)
class SpaceRule:
    """What a split may look like.

    Attributes:
        batch_rule: powers of two, or any.
        accumulate: whether a local batch may exceed what memory holds, in several passes.
        from_knee: whether micro-batches below the useful batch are left out.
    """

    batch_rule: BatchRule
    accumulate: bool = False
    from_knee: bool = False

    def least(self, supply: TypeSupply) -> int:
        """Returns the smallest local batch."""
        return supply.batches.knee if self.from_knee else supply.batches.least

    def most(self, supply: TypeSupply, global_batch: int) -> int:
        """Returns the largest local batch."""
        return global_batch if self.accumulate else min(supply.batches.most, global_batch)


@dataclass(frozen=True, slots=True)
class _Thinning:
    """A choice of local batches.

    Attributes:
        words: how it narrows the space; empty where it does not.
        values: the batches between two bounds.
        density: batches per sample between the bounds, about; 0 for logarithmic choices.
    """

    words: str
    values: Callable[[int, int], IntArray]
    density: float

    def count(self, least: int, most: int) -> float:
        """Returns about how many batches there are, without listing them."""
        return max(most - least + 1, 0) * self.density or len(self.values(least, most))


def _every(least: int, most: int) -> IntArray:
    return np.arange(least, most + 1, dtype=np.int64)


def _powers_of_two(least: int, most: int) -> IntArray:
    first = max(least - 1, 0).bit_length()
    return np.array([1 << e for e in range(first, most.bit_length()) if 1 << e <= most], np.int64)


def _multiples_of_eight(least: int, most: int) -> IntArray:
    eights = np.arange(-(-least // 8) * 8, most + 1, 8, dtype=np.int64)
    return np.unique(np.concatenate([eights[eights > 0], _powers_of_two(least, most)]))


def _per_octave(steps: int) -> Callable[[int, int], IntArray]:
    def batches(least: int, most: int) -> IntArray:
        octaves = math.log2(max(most / max(least, 1), 1)) + 2
        grid = 2.0 ** (np.arange(int(octaves * steps) + 1) / steps) * max(least, 1)
        rounded = np.unique(np.round(grid).astype(np.int64))
        allowed = rounded[(rounded >= least) & (rounded <= most)]
        return np.unique(np.concatenate([allowed, _powers_of_two(least, most)]))

    return batches


_POWERS_OF_TWO = _Thinning("", _powers_of_two, 0.0)
# The local batches of `any`, mildest thinning first.
_THINNINGS = (
    _Thinning("", _every, 1.0),
    _Thinning("local batches are multiples of 8 or powers of two", _multiples_of_eight, 1 / 8),
    _Thinning("local batches are four to an octave", _per_octave(4), 0.0),
    _Thinning("local batches are two to an octave", _per_octave(2), 0.0),
    _Thinning(
        "local batches are powers of two, but for one type that takes the rest",
        _powers_of_two,
        0.0,
    ),
)
_WORKER_STEPS = (1, 2, 4, 8, 16, 32, 64)


def enumerate_splits(
    supplies: Sequence[TypeSupply],
    global_batch: int,
    rule: SpaceRule,
    *,
    most_rows: int = MOST_ROWS,
) -> Splits:
    """Returns the splits of a global batch, thinned where there would be too many.

    Args:
        supplies: what can be had, T instance types.
        global_batch: samples of one iteration.
        rule: what a split may look like.
        most_rows: about how many rows are wanted at most.
    """
    if not supplies:
        none = np.zeros((0, 0), dtype=np.int64)
        return Splits(none, none)
    any_batch = rule.batch_rule is BatchRule.ANY
    thinnings = _THINNINGS if any_batch else (_POWERS_OF_TWO,)
    for step in _WORKER_STEPS:
        for thinning in thinnings:
            grid = _Grid(supplies, global_batch, rule, thinning, step)
            coarsest = step == _WORKER_STEPS[-1] and thinning is thinnings[-1]
            if not coarsest and grid.rows_bound() > _PAIRS_PER_ROW * most_rows:
                continue
            splits = grid.enumerate(remainders=any_batch)
            if not coarsest and len(splits) > most_rows:
                continue
            parts = [thinning.words] if thinning.words else []
            if step > 1:
                parts.append(f"workers come in steps of {step} VMs where many can be had")
            return replace(splits, complete=not parts, thinning="; ".join(parts))
    raise AssertionError("the coarsest grid is always enumerated")


@dataclass(frozen=True)
class _Grid:
    """The options of each type from which splits are made."""

    supplies: Sequence[TypeSupply]
    global_batch: int
    rule: SpaceRule
    thinning: _Thinning
    worker_step: int

    def batches(self, supply: TypeSupply) -> IntArray:
        return self.thinning.values(
            self.rule.least(supply), self.rule.most(supply, self.global_batch)
        )

    def batch_count(self, supply: TypeSupply) -> float:
        return self.thinning.count(
            self.rule.least(supply), self.rule.most(supply, self.global_batch)
        )

    def worker_counts(self, supply: TypeSupply) -> IntArray:
        most = min(supply.workers, self.global_batch // max(self.rule.least(supply), 1))
        if self.worker_step == 1:
            return np.arange(1, most + 1, dtype=np.int64)
        gpus = supply.instance_type.gpus
        coarse = np.arange(1, most // (gpus * self.worker_step) + 1) * gpus * self.worker_step
        fine = np.arange(1, min(most, gpus) + 1)
        doubled = gpus * _powers_of_two(1, max(supply.vms, 1))
        return np.unique(np.concatenate([fine, doubled[doubled <= most], coarse])).astype(np.int64)

    def rows_bound(self) -> float:
        """Returns an upper bound on the pairs that `enumerate` looks at."""
        types = range(len(self.supplies))
        options = [
            1.0 + len(self.worker_counts(supply)) * self.batch_count(supply)
            for supply in self.supplies
        ]
        if self.rule.batch_rule is BatchRule.ANY:  # each type is the last one once
            return sum(
                math.prod(options[:last] + options[last + 1 :])
                * len(self.worker_counts(self.supplies[last]))
                for last in types
            )
        *others, last = self._order(types)
        states = math.prod(options[t] for t in others)
        return (
            states * self.batch_count(self.supplies[last]) if states <= _MOST_STATES else math.inf
        )

    def _order(self, types: Sequence[int]) -> list[int]:
        """Returns the types with the one of most options last: it is solved, not enumerated."""
        options = {
            t: len(self.worker_counts(self.supplies[t])) * self.batch_count(self.supplies[t])
            for t in types
        }
        return sorted(types, key=lambda t: options[t])

    def enumerate(self, *, remainders: bool) -> Splits:
        """Returns all splits of the grid."""
        types = range(len(self.supplies))
        parts = [self._with_last(self._order(types), remainder=False)]
        if remainders:
            for last in types:
                order = [t for t in types if t != last] + [last]
                parts.append(self._with_last(order, remainder=True))
        return Splits(
            np.concatenate([workers for workers, _ in parts]),
            np.concatenate([samples for _, samples in parts]),
        )

    def _with_last(self, order: Sequence[int], *, remainder: bool) -> tuple[IntArray, IntArray]:
        """Returns the splits in which the last type of `order` takes what the others leave."""
        count = len(self.supplies)
        workers = np.zeros((1, count), dtype=np.int64)
        samples = np.zeros((1, count), dtype=np.int64)
        left = np.full(1, self.global_batch, dtype=np.int64)
        rest = [self._capacity(self.supplies[t]) for t in order]
        for position, t in enumerate(order[:-1]):
            supply = self.supplies[t]
            own_workers = np.repeat(self.worker_counts(supply), len(self.batches(supply)))
            own_batch = np.tile(self.batches(supply), len(self.worker_counts(supply)))
            own_workers = np.concatenate([[0], own_workers])
            own_samples = np.concatenate([[0], own_workers[1:] * own_batch])
            remaining = left[:, None] - own_samples[None, :]
            later = sum(rest[position + 1 :])
            row, option = np.nonzero((remaining >= 0) & (remaining <= later))
            workers, samples = workers[row], samples[row]
            workers[:, t] = own_workers[option]
            samples[:, t] = own_samples[option]
            left = remaining[row, option]
        return self._finish(order[-1], workers, samples, left, remainder=remainder)

    def _finish(
        self, last: int, workers: IntArray, samples: IntArray, left: IntArray, *, remainder: bool
    ) -> tuple[IntArray, IntArray]:
        """Gives what is left to the last type: by batch for powers of two, by workers for any."""
        supply = self.supplies[last]
        counts = self.worker_counts(supply)
        least = self.rule.least(supply)
        most = self.rule.most(supply, self.global_batch)
        done = np.zeros(0, dtype=np.int64) if remainder else np.flatnonzero(left == 0)
        open_rows = np.flatnonzero(left > 0)
        if self.rule.batch_rule is BatchRule.ANY:
            share = left[open_rows, None] // np.maximum(counts, 1)[None, :]
            extra = left[open_rows, None] - share * counts[None, :]
            top = share + (extra > 0)
            fits = (share >= least) & (top <= most) & ((extra > 0) == remainder)
            row, option = np.nonzero(fits)
            chosen = counts[option]
        else:
            batches = self.batches(supply)
            whole = left[open_rows, None] // batches[None, :]
            fits = (whole * batches[None, :] == left[open_rows, None]) & np.isin(whole, counts)
            row, option = np.nonzero(fits)
            chosen = whole[row, option]
        rows = np.concatenate([done, open_rows[row]])
        workers, samples = workers[rows], samples[rows]
        if len(row):
            workers[len(done) :, last] = chosen
            samples[len(done) :, last] = left[open_rows[row]]
        return workers, samples

    def _capacity(self, supply: TypeSupply) -> int:
        """Returns the most samples that a type can take."""
        return supply.workers * self.rule.most(supply, self.global_batch)
