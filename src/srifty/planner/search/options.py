"""What one instance type can contribute: a local batch, and what follows from it.

An *option* is an instance type with a local batch. Options are numbered by falling latency, so that
of a configuration's groups the one with the smallest number is the slowest: the *anchor*. An open
option stands for the remainder: workers whose local batches are `batch` and one less, neither of
them none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import BatchRule
from srifty.planner.assemble import passes_of
from srifty.planner.space import SpaceRule, powers_of_two
from srifty.planner.supply import TypeSupply
from srifty.simulator.bounds import IterationBounds, WorkerTimes

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# More options than these would take longer to look through than a search may last.
MOST_OPTIONS = 30_000
# The types that a node uses are kept as bits of an integer.
MOST_TYPES = 62


@dataclass(frozen=True)
class Options:
    """The O options of a place's T instance types, slowest first.

    Attributes:
        kind: (O,) which type.
        batch: (O,) largest local batch.
        is_open: (O,) whether some of the workers take one sample less.
        compute_s: (O,) mean of all passes of a worker.
        ready_s: (O, K) mean time at which a worker has transfer k ready, at least.
        model_spread: (O,) spread of the latency model's error, at least.
        most_workers: (O,) workers that can be had, or that the global batch suffices for.
        spread: (T,) spread of a worker's time.
        optimizer_s: (T,) optimizer step.
        input_s: (T,) what a VM's loader takes for a sample.
        gpus: (T,) GPUs of a VM.
        usd_per_hour: (T, W) price of the cheapest VMs with w workers; infinite where none are.
        least_billed_s: seconds that are billed at least, of any offer.
        straggling: (T, W) how much longer the slowest of w equal workers takes than their mean.
    """

    kind: IntArray
    batch: IntArray
    is_open: BoolArray
    compute_s: FloatArray
    ready_s: FloatArray
    model_spread: FloatArray
    most_workers: IntArray
    spread: FloatArray
    optimizer_s: FloatArray
    input_s: FloatArray
    gpus: IntArray
    usd_per_hour: FloatArray
    least_billed_s: float
    straggling: FloatArray

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def types(self) -> int:
        """Number of instance types."""
        return len(self.gpus)

    @classmethod
    def of(
        cls,
        supplies: Sequence[TypeSupply],
        global_batch: int,
        rule: SpaceRule,
        bounds: IterationBounds,
    ) -> Self | None:
        """Returns the options of a place; None where there are too many for a search.

        Args:
            supplies: what can be had.
            global_batch: samples of one iteration.
            rule: what a split may look like.
            bounds: what workers take.
        """
        sizes = [_batches(supply, global_batch, rule) for supply in supplies]
        if len(supplies) > MOST_TYPES or sum(len(b) for b, _ in sizes) > MOST_OPTIONS:
            return None
        times = [
            bounds.workers(
                supply.offers[0],
                batch,
                passes_of(batch, np.ones_like(batch), supply.batches.most, rule.batch_rule),
            )
            for supply, (batch, _) in zip(supplies, sizes, strict=True)
        ]
        kind = np.repeat(np.arange(len(supplies)), [len(batch) for batch, _ in sizes])
        compute_s = np.concatenate([t.compute_s for t in times])
        order = np.argsort(-compute_s, kind="stable")
        batch = np.concatenate([b for b, _ in sizes])[order]
        is_open = np.concatenate([o for _, o in sizes])[order]
        most = np.array([supply.workers for supply in supplies])
        by_batch = np.where(
            is_open, (global_batch - 1) // np.maximum(batch - 1, 1), global_batch // batch
        )
        most_workers = np.minimum(most[kind[order]], by_batch)
        width = int(most_workers.max(initial=1)) + 1
        spread = np.array([t.spread for t in times])
        return cls(
            kind=kind[order],
            batch=batch,
            is_open=is_open,
            compute_s=compute_s[order],
            ready_s=np.concatenate([t.ready_s for t in times])[order],
            model_spread=_least_of_equals(compute_s[order], kind[order], times),
            most_workers=most_workers,
            spread=spread,
            optimizer_s=np.array([t.optimizer_s for t in times]),
            input_s=np.array([t.input_s for t in times]),
            gpus=np.array([supply.instance_type.gpus for supply in supplies]),
            usd_per_hour=np.stack([_prices(supply, width) for supply in supplies]),
            least_billed_s=min(
                offer.billing.minimum_s for supply in supplies for offer in supply.offers
            ),
            straggling=np.stack([_straggling(bounds, share, width) for share in spread]),
        )


def _batches(supply: TypeSupply, global_batch: int, rule: SpaceRule) -> tuple[IntArray, BoolArray]:
    """Returns the local batches of a type, and which of them are open."""
    least, most = rule.least(supply), rule.most(supply, global_batch)
    if rule.batch_rule is BatchRule.POWER_OF_TWO:
        equal = powers_of_two(least, most)
        return equal, np.zeros(len(equal), dtype=np.bool_)
    if most - least > MOST_OPTIONS:
        most = least + MOST_OPTIONS  # too many in any case
    equal = np.arange(least, most + 1, dtype=np.int64)
    several = equal[1:] if supply.workers > 1 else equal[:0]
    is_open = np.repeat([False, True], [len(equal), len(several)])
    return np.concatenate([equal, several]), is_open


def _prices(supply: TypeSupply, width: int) -> FloatArray:
    """Returns the price of 0, 1, 2 … workers on the cheapest VMs."""
    vms = -(-(width - 1) // supply.instance_type.gpus)
    one_by_one = np.concatenate(
        [np.full(min(offer.most_vms, vms), offer.usd_per_hour) for offer in supply.offers]
    )[:vms]
    price = np.concatenate([[0.0], np.cumsum(one_by_one), np.full(vms - len(one_by_one), np.inf)])
    return price[-(-np.arange(width) // supply.instance_type.gpus)]


def _straggling(bounds: IterationBounds, spread: float, width: int) -> FloatArray:
    """Returns the factor by which the slowest of 0, 1, 2 … workers exceeds their mean, at least."""
    workers = np.arange(1, width, dtype=np.float64).reshape(-1, 1)
    ones = np.ones_like(workers)
    factor = bounds.slowest_of(ones, spread * ones, workers)
    return np.concatenate([factor[:1], np.maximum.accumulate(factor)])


def _least_of_equals(
    compute_s: FloatArray, kind: IntArray, times: Sequence[WorkerTimes]
) -> FloatArray:
    """Returns (O,) the smallest model spread among options of the same latency.

    Which of equally slow workers the simulator takes for the slowest is its own affair.
    """
    spread = np.array([t.model_spread for t in times])[kind]
    _, group = np.unique(compute_s, return_inverse=True)
    least = np.full(int(group.max(initial=0)) + 1, np.inf)
    np.minimum.at(least, group, spread)
    return least[group]
