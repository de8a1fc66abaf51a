"""What is left of the global batch: what it costs at least, and how many workers it takes at least.

Both are linear relaxations: each type that is not used yet may take any share of the samples, at
most as many as its workers hold at the largest local batch that is still allowed (any option after
the node's last one). Fractions of a worker are then as cheap as they can be, so the relaxed price
is no higher than that of any completion; and it is solved by taking the cheapest samples first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from srifty.planner.search.options import Options
from srifty.planner.supply import TypeSupply

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Numbers that are held in memory at a time.
_BLOCK = 2_000_000


@dataclass(frozen=True)
class _Segments:
    """Sources of samples, (O, S), those first that are taken first; by last option.

    Attributes:
        kind: which type's.
        samples: how many samples it can take.
        rate: what one sample costs.
    """

    kind: IntArray
    samples: FloatArray
    rate: FloatArray

    @classmethod
    def of(cls, kind: IntArray, workers: IntArray, cost: FloatArray, batch: IntArray) -> Self:
        """Returns the segments for each last option.

        Args:
            kind: (S,) type of each source.
            workers: (S,) workers that it has.
            cost: (S,) what one of them costs.
            batch: (O, T) largest local batch.
        """
        each = batch[:, kind].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(each > 0, cost / each, np.inf)
        order = np.argsort(rate, axis=1, kind="stable")
        return cls(
            kind[order],
            np.take_along_axis(each * workers, order, axis=1),
            np.take_along_axis(rate, order, axis=1),
        )

    def fill(
        self, last: IntArray, used: IntArray, wanted: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (N,) what the wanted samples cost (infinite: too many), and the last one's rate.

        Args:
            last: (N,) last option.
            used: (N,) bits of the types that may not be taken.
            wanted: (N,) samples; 0 or fewer cost nothing.
        """
        total, marginal = np.empty(len(last)), np.empty(len(last))
        step = max(_BLOCK // max(self.kind.shape[1], 1), 1)
        for start in range(0, len(last), step):
            rows = slice(start, start + step)
            o = last[rows]
            free = (used[rows, None] >> self.kind[o]) & 1 == 0
            samples = np.where(free, self.samples[o], 0.0)
            rate = self.rate[o]
            need = np.maximum(wanted[rows], 0).astype(np.float64)
            before = np.cumsum(samples, axis=1) - samples
            taken = np.clip(need[:, None] - before, 0.0, samples)
            here = taken > 0
            cost = np.where(here, taken * np.where(here, rate, 0.0), 0.0).sum(axis=1)
            short = before[:, -1] + samples[:, -1] < need
            total[rows] = np.where(short, np.inf, cost)
            marginal[rows] = np.where(here, rate, 0.0).max(axis=1)
        return total, marginal


@dataclass(frozen=True)
class SupplyBound:
    """The two relaxations of a place; row `o + 1` belongs to the last option `o`.

    Attributes:
        price: sources are offers, by price.
        workers: sources are types, by batch.
        largest_batch: (O + 1, T) the largest local batch of each type after the last option.
    """

    price: _Segments
    workers: _Segments
    largest_batch: IntArray

    @classmethod
    def of(cls, supplies: Sequence[TypeSupply], options: Options) -> Self:
        """Returns the relaxations of a place."""
        batch = np.zeros((len(options) + 1, options.types), dtype=np.int64)
        batch[np.arange(len(options)), options.kind] = options.batch
        batch = np.maximum.accumulate(batch[::-1], axis=0)[::-1]
        sources = [
            (t, min(offer.most_vms, 1 << 40) * supply.instance_type.gpus, offer.usd_per_hour)
            for t, supply in enumerate(supplies)
            for offer in supply.offers
        ]
        kind = np.array([t for t, _, _ in sources])
        per_worker = np.array([usd for _, _, usd in sources]) / options.gpus[kind]
        most = np.array([supply.workers for supply in supplies])
        types = np.arange(options.types)
        return cls(
            _Segments.of(kind, np.array([w for _, w, _ in sources]), per_worker, batch),
            _Segments.of(types, most, np.ones(options.types), batch),
            batch,
        )

    def least_usd_per_hour(
        self, last: IntArray, used: IntArray, wanted: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (N,) the least price of what is left, and of its last sample."""
        return self.price.fill(last + 1, used, wanted)

    def least_workers(self, last: IntArray, used: IntArray, wanted: IntArray) -> IntArray:
        """Returns (N,) the least number of workers that take what is left."""
        count, _ = self.workers.fill(last + 1, used, wanted)
        return np.ceil(np.where(np.isfinite(count), count, 0.0) - 1e-9).astype(np.int64)
