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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import BatchRule
from srifty.planner.supply import TypeSupply

IntArray = NDArray[np.int64]

# Rows that a search looks at before its space is thinned: a few seconds of simulation.
MOST_ROWS = 100_000
# Pairs of a partial split and the last type's choice that may be looked at for a row: most pairs of
# powers of two do not sum to the global batch, most pairs under `any` do.
_PAIRS_PER_ROW = {BatchRule.POWER_OF_TWO: 500, BatchRule.ANY: 20}
# Pairs that are held in memory at a time.
_BLOCK_PAIRS = 2_000_000


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


def powers_of_two(least: int, most: int) -> IntArray:
    """Returns the powers of two between two bounds, both included."""
    first = max(least - 1, 0).bit_length()
    found = [1 << e for e in range(first, most.bit_length()) if 1 << e <= most]
    return np.array(found, dtype=np.int64)


def _multiples_of_eight(least: int, most: int) -> IntArray:
    eights = np.arange(-(-least // 8) * 8, most + 1, 8, dtype=np.int64)
    return np.unique(np.concatenate([eights[eights > 0], powers_of_two(least, most)]))


def _per_octave(steps: int) -> Callable[[int, int], IntArray]:
    def batches(least: int, most: int) -> IntArray:
        octaves = math.log2(max(most / max(least, 1), 1)) + 2
        grid = 2.0 ** (np.arange(int(octaves * steps) + 1) / steps) * max(least, 1)
        rounded = np.unique(np.round(grid).astype(np.int64))
        allowed = rounded[(rounded >= least) & (rounded <= most)]
        return np.unique(np.concatenate([allowed, powers_of_two(least, most)]))

    return batches


_POWERS_OF_TWO = _Thinning("", powers_of_two, 0.0)
# The local batches of `any`, mildest thinning first.
_THINNINGS = (
    _Thinning("", _every, 1.0),
    _Thinning("local batches are multiples of 8 or powers of two", _multiples_of_eight, 1 / 8),
    _Thinning("local batches are four to an octave", _per_octave(4), 0.0),
    _Thinning("local batches are two to an octave", _per_octave(2), 0.0),
    _Thinning(
        "local batches are powers of two, but for one type that takes the rest",
        powers_of_two,
        0.0,
    ),
)
# How many instance types a split may combine, and in which steps their VMs come: mildest first.
_MOST_TYPES = (3, 2)
_WORKER_STEPS = (1, 2, 4, 8, 16, 32, 64)


def every_split(
    supplies: Sequence[TypeSupply], global_batch: int, rule: SpaceRule, *, most_rows: int
) -> Splits | None:
    """Returns all splits of a global batch; None where there are more rows than wanted.

    Args:
        supplies: what can be had, T instance types.
        global_batch: samples of one iteration.
        rule: what a split may look like.
        most_rows: how many rows are wanted at most.
    """
    count = len(supplies)
    thinning = _THINNINGS[0] if rule.batch_rule is BatchRule.ANY else _POWERS_OF_TWO
    if 1 << count > _PAIRS_PER_ROW[rule.batch_rule] * most_rows:
        return None
    grid = _Grid(supplies, global_batch, rule, thinning, 1)
    subsets = [c for size in range(1, count + 1) for c in combinations(range(count), size)]
    pairs = 0.0
    for subset in subsets:
        pairs += grid.pairs(subset)
        if pairs > _PAIRS_PER_ROW[rule.batch_rule] * most_rows:
            return None
    return grid.enumerate(subsets, most_rows=most_rows)


def enumerate_splits(
    supplies: Sequence[TypeSupply],
    global_batch: int,
    rule: SpaceRule,
    *,
    most_rows: int = MOST_ROWS,
) -> Splits:
    """Returns the splits of a global batch, thinned where there would be too many.

    Thinned are, in this order: how many instance types are combined, the local batches of `any`,
    and how finely VMs are counted.

    Args:
        supplies: what can be had, T instance types.
        global_batch: samples of one iteration.
        rule: what a split may look like.
        most_rows: about how many rows are wanted at most.
    """
    count = len(supplies)
    if not count:
        none = np.zeros((0, 0), dtype=np.int64)
        return Splits(none, none)
    any_batch = rule.batch_rule is BatchRule.ANY
    thinnings = _THINNINGS if any_batch else (_POWERS_OF_TWO,)
    most_types = (count, *(most for most in _MOST_TYPES if most < count))
    plans = [
        (step, thinning, most)
        for step in _WORKER_STEPS
        for thinning in thinnings
        for most in most_types
    ]
    for step, thinning, most in plans:
        coarsest = (step, thinning, most) == plans[-1]
        grid = _Grid(supplies, global_batch, rule, thinning, step)
        subsets = [c for size in range(1, most + 1) for c in combinations(range(count), size)]
        pairs = sum(grid.pairs(subset) for subset in subsets)
        if not coarsest and pairs > _PAIRS_PER_ROW[rule.batch_rule] * most_rows:
            continue
        splits = grid.enumerate(subsets, most_rows=None if coarsest else most_rows)
        if splits is None:
            continue
        parts = [thinning.words] if thinning.words else []
        if most < count:
            parts.append(f"at most {most} instance types are combined")
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
        doubled = gpus * powers_of_two(1, max(supply.vms, 1))
        return np.unique(np.concatenate([fine, doubled[doubled <= most], coarse])).astype(np.int64)

    @cached_property
    def _choices(self) -> list[tuple[int, float]]:
        """How many worker counts and, about, how many batches each type has."""
        return [(len(self.worker_counts(s)), self.batch_count(s)) for s in self.supplies]

    def _options(self, t: int) -> float:
        """Returns about how many choices of workers and batch a type has."""
        workers, batches = self._choices[t]
        return workers * batches

    def pairs(self, subset: Sequence[int]) -> float:
        """Returns how many (partial split, last type's choice) pairs a subset makes at most."""
        if self.rule.batch_rule is BatchRule.ANY:  # each type is the last one once
            return sum(
                math.prod(self._options(t) for t in subset if t != last) * self._choices[last][0]
                for last in subset
            )
        *others, last = self._order(subset)
        return math.prod(map(self._options, others)) * self._choices[last][1]

    def _order(self, subset: Sequence[int]) -> list[int]:
        """Returns the types with the one of most options last: it is solved, not enumerated."""
        return sorted(subset, key=self._options)

    def enumerate(
        self, subsets: Sequence[Sequence[int]], *, most_rows: int | None
    ) -> Splits | None:
        """Returns all splits that use exactly the types of a subset; None if there are too many."""
        parts: list[tuple[IntArray, IntArray]] = []
        rows = 0
        for subset in subsets:
            orders = [(self._order(subset), False)]
            if self.rule.batch_rule is BatchRule.ANY:
                orders += [([t for t in subset if t != last] + [last], True) for last in subset]
            for order, remainder in orders:
                for part in self._with_last(order, remainder=remainder):
                    parts.append(part)
                    rows += len(part[0])
                    if most_rows is not None and rows > most_rows:
                        return None
        empty = np.zeros((0, len(self.supplies)), dtype=np.int64)
        return Splits(
            np.concatenate([workers for workers, _ in parts] or [empty]),
            np.concatenate([samples for _, samples in parts] or [empty]),
        )

    def _with_last(
        self, order: Sequence[int], *, remainder: bool
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yields the splits in which the last type of `order` takes what the others leave."""
        *others, last = order
        shape = (1, len(self.supplies))
        start = (
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.full(1, self.global_batch, dtype=np.int64),
        )
        for workers, samples, left in self._partial(start, others, self._capacity(last)):
            step = max(_BLOCK_PAIRS // max(self._last_choices(last), 1), 1)
            for first in range(0, len(left), step):
                block = slice(first, first + step)
                yield self._finish(
                    last, workers[block], samples[block], left[block], remainder=remainder
                )

    def _partial(
        self,
        state: tuple[IntArray, IntArray, IntArray],
        others: Sequence[int],
        capacity_of_last: int,
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yields partial splits (workers, samples, samples left) over all types but the last."""
        if not others:
            yield state
            return
        t, *rest = others
        supply = self.supplies[t]
        batches = self.batches(supply)
        own_workers = np.repeat(self.worker_counts(supply), len(batches))
        own_samples = own_workers * np.tile(batches, len(self.worker_counts(supply)))
        later = capacity_of_last + sum(self._capacity(other) for other in rest)
        step = max(_BLOCK_PAIRS // max(len(own_samples), 1), 1)
        for first in range(0, len(state[2]), step):
            workers, samples, left = (part[first : first + step] for part in state)
            remaining = left[:, None] - own_samples[None, :]
            row, option = np.nonzero((remaining > 0) & (remaining <= later))
            workers, samples = workers[row], samples[row]
            workers[:, t] = own_workers[option]
            samples[:, t] = own_samples[option]
            yield from self._partial(
                (workers, samples, remaining[row, option]), rest, capacity_of_last
            )

    def _last_choices(self, last: int) -> int:
        """Returns how many choices are looked at for the last type."""
        supply = self.supplies[last]
        if self.rule.batch_rule is BatchRule.ANY:
            return len(self.worker_counts(supply))
        return len(self.batches(supply))

    def _finish(
        self, last: int, workers: IntArray, samples: IntArray, left: IntArray, *, remainder: bool
    ) -> tuple[IntArray, IntArray]:
        """Gives what is left to the last type: by batch for powers of two, by workers for any."""
        supply = self.supplies[last]
        counts = self.worker_counts(supply)
        least = self.rule.least(supply)
        most = self.rule.most(supply, self.global_batch)
        if not len(counts):
            return workers[:0], samples[:0]
        if self.rule.batch_rule is BatchRule.ANY:
            share = left[:, None] // np.maximum(counts, 1)[None, :]
            extra = left[:, None] - share * counts[None, :]
            top = share + (extra > 0)
            fits = (share >= least) & (top <= most) & ((extra > 0) == remainder)
            row, option = np.nonzero(fits)
            chosen = counts[option]
        else:
            batches = self.batches(supply)
            whole = left[:, None] // batches[None, :]
            fits = (whole > 0) & (whole <= counts[-1])
            fits &= whole * batches[None, :] == left[:, None]
            if self.worker_step > 1:
                fits &= np.isin(whole, counts)
            row, option = np.nonzero(fits)
            chosen = whole[row, option]
        workers, samples = workers[row], samples[row]
        workers[:, last] = chosen
        samples[:, last] = left[row]
        return workers, samples

    def _capacity(self, t: int) -> int:
        """Returns the most samples that a type can take."""
        supply = self.supplies[t]
        return supply.workers * self.rule.most(supply, self.global_batch)
