"""One seeded order of a dataset's samples, of which any part is computed without the rest. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Order: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.int64]]

_ROUNDS = 8
# Steele 2014 ("splitmix64"): shifts and factors that let each bit of a number reach every other.
_STIRRED = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = np.uint64(31)


@functools.lru_cache(maxsize=8)
def order_of(length: int, seed: int, epoch: int) -> Order:
    """Returns a function from places in an epoch's order to samples, one to one.

    It is a cipher on the numbers below `length` (Black 2002): a number is split into two digits of
    base √length, each round adds a keyed hash of one digit to the other (a Feistel network), and
    what comes out beyond `length` goes in again. So it needs no memory, and no time to begin.

    Args:
        length: samples in the dataset, at least 1.
        seed: of the training, not negative.
        epoch: number of the epoch, from 0; each has another order.
    """
    base = np.uint64(math.isqrt(length - 1) + 1)
    keys = np.random.SeedSequence((seed, epoch)).generate_state(_ROUNDS, np.uint64)

    def once(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = np.divmod(numbers, base)
        for key in keys:
            left, right = right, (left + _stir(right + key) % base) % base
        return left * base + right

    def samples(places: NDArray[np.int64]) -> NDArray[np.int64]:
        found = once(places.astype(np.uint64))
        beyond = np.flatnonzero(found >= length)
        while beyond.size:
            found[beyond] = once(found[beyond])
            beyond = beyond[found[beyond] >= length]
        return found.astype(np.int64)

    return samples


def seed_of(seed: int, step: int, rank: int) -> int:
    """Returns a seed that depends on the training's, the global step and the worker only."""
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0] >> 1)


def _stir(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns 64-bit hashes; multiplication is modulo 2**64."""
    for shift, factor in _STIRRED:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> _LAST_SHIFT)
