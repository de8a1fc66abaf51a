"""From splits to cluster configurations: workers onto VMs, VMs onto offers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import BatchRule
from srifty.core.offers import Offer
from srifty.planner.space import Splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.tables import ConfigTable

IntArray = NDArray[np.int64]


def assemble(supplies: Sequence[TypeSupply], splits: Splits, batch_rule: BatchRule) -> ConfigTable:
    """Returns the cluster configurations of the splits.

    Workers of a type fill its VMs one after the other; the last VM may have idle GPUs. A remainder
    goes to the full VMs first, one sample per worker, so that VMs of a type differ by as little as
    possible. VMs take the cheapest offers first.

    Args:
        supplies: the T types of the splits.
        splits: R splits.
        batch_rule: powers of two accumulate over a power of two of passes.
    """
    offers = tuple(offer for supply in supplies for offer in supply.offers)
    position = {offer: index for index, offer in enumerate(offers)}
    columns: list[tuple[int, IntArray, IntArray, IntArray, IntArray]] = []
    for t, supply in enumerate(supplies):
        workers, samples = splits.workers[:, t], splits.samples[:, t]
        gpus = supply.instance_type.gpus
        full = workers // gpus
        partial = workers - full * gpus
        least = samples // np.maximum(workers, 1)
        extra = samples - least * workers
        passes = _passes(samples, workers, supply.batches.most, batch_rule)
        # One extra sample per worker of the full VMs first; what is left goes to the partial VM.
        extra_full = np.minimum(extra, full * gpus)
        extra_partial = extra - extra_full
        per_vm = extra_full // np.maximum(full, 1)
        high = extra_full - per_vm * full
        kinds = (
            (high, gpus * least + per_vm + 1, np.full_like(workers, gpus)),
            (full - high, gpus * least + per_vm, np.full_like(workers, gpus)),
            ((partial > 0).astype(np.int64), partial * least + extra_partial, partial),
        )
        kind_start = np.zeros_like(workers)
        for count, per_vm_samples, used in kinds:
            kind_end = kind_start + count
            offer_start = 0
            for offer in supply.offers:
                offer_end = offer_start + offer.quota
                here = np.minimum(kind_end, offer_end) - np.maximum(kind_start, offer_start)
                taken = np.maximum(here, 0)
                if taken.any():
                    columns.append((position[offer], taken, per_vm_samples, used, passes))
                offer_start = offer_end
            kind_start = kind_end
    return _compress(offers, columns, len(splits))


def _passes(samples: IntArray, workers: IntArray, most: int, batch_rule: BatchRule) -> IntArray:
    """Returns the fewest passes in which every worker's samples fit in memory."""
    local = -(-samples // np.maximum(workers, 1))
    passes = np.maximum(-(-local // most), 1)
    if batch_rule is BatchRule.POWER_OF_TWO:
        passes = np.left_shift(1, np.ceil(np.log2(passes)).astype(np.int64))
    return passes.astype(np.int64)


def _compress(
    offers: tuple[Offer, ...],
    columns: list[tuple[int, IntArray, IntArray, IntArray, IntArray]],
    rows: int,
) -> ConfigTable:
    """Returns the table with each row's VM groups moved to the left and empty columns cut off."""
    if not columns:
        empty = np.zeros((rows, 1), dtype=np.int64)
        return ConfigTable(offers, empty, empty, empty + 1, empty + 1, empty + 1)
    count = np.stack([column[1] for column in columns], axis=1)
    order = np.argsort(count == 0, axis=1, kind="stable")
    width = max(int((count > 0).sum(axis=1).max()), 1) if rows else 1
    order = order[:, :width]

    def packed(values: IntArray) -> IntArray:
        return np.take_along_axis(values, order, axis=1)

    count = packed(count)
    present = count > 0
    offer = packed(np.tile(np.array([c[0] for c in columns], dtype=np.int64), (rows, 1)))
    samples = packed(np.stack([column[2] for column in columns], axis=1))
    used = packed(np.stack([column[3] for column in columns], axis=1))
    passes = packed(np.stack([column[4] for column in columns], axis=1))
    return ConfigTable(
        offers,
        offer,
        count,
        np.where(present, samples, 1),
        np.where(present, used, 1),
        np.where(present, passes, 1),
    )
