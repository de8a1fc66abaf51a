"""From splits to cluster configurations: workers onto VMs, VMs onto offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import BatchRule
from srifty.core.offers import Offer, QuotaPool
from srifty.planner.space import Splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.tables import ConfigTable

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Assembled:
    """Cluster configurations, and which split each row serves.

    Attributes:
        configs: the configurations.
        split: (R,) row of the splits.
        narrowing: how cheaper configurations may have been missed, in words; empty if none was.
    """

    configs: ConfigTable
    split: IntArray
    narrowing: str = ""


def assemble(supplies: Sequence[TypeSupply], splits: Splits, batch_rule: BatchRule) -> Assembled:
    """Returns the cluster configurations of the splits.

    Workers of a type fill its VMs one after the other; the last VM may have idle GPUs. A remainder
    goes to the full VMs first, one sample per worker, so that VMs of a type differ by as little as
    possible. VMs take the cheapest offers first, which is the best there is, unless types compete
    for a quota that they share. Then each type is once the first to take from it, and splits that
    exceed it are left out.

    Args:
        supplies: the T types of the splits.
        splits: R splits.
        batch_rule: powers of two accumulate over a power of two of passes.
    """
    vms = [
        -(-splits.workers[:, t] // supply.instance_type.gpus) for t, supply in enumerate(supplies)
    ]
    types = list(range(len(supplies)))
    alone = [_take_vms(supply, vms[t], {})[0] for t, supply in enumerate(supplies)]
    tables: list[ConfigTable] = []
    rows: list[IntArray] = []
    prices: list[FloatArray] = []
    for first in types:
        order = [first, *(t for t in types if t != first)]
        taken, served = _take_in_order(supplies, vms, order)
        configs = _deal(supplies, splits, batch_rule, taken)
        price = np.where(served, configs.usd_per_hour, np.inf)
        new = served & np.all([price != other for other in prices] or [served], axis=0)
        prices.append(price)
        kept = np.flatnonzero(new)
        tables.append(configs.take(kept))
        rows.append(kept)
        if not (_can_choose(supplies) and _differs(taken, alone).any()):
            break
    narrowing = "types take from a shared quota one after the other" if len(tables) > 1 else ""
    return Assembled(ConfigTable.concatenate(tables), np.concatenate(rows), narrowing)


def _can_choose(supplies: Sequence[TypeSupply]) -> bool:
    """Whether a type that shares a quota with another one has several offers to take from."""
    pools = [{pool for offer in supply.offers for pool in offer.pools} for supply in supplies]
    return any(
        len(supplies[a].offers) > 1 and pools[a] & pools[b]
        for a in range(len(supplies))
        for b in range(len(supplies))
        if a != b
    )


def _take_in_order(
    supplies: Sequence[TypeSupply], vms: Sequence[IntArray], order: Sequence[int]
) -> tuple[list[list[IntArray]], BoolArray]:
    """Returns how many VMs of each type's offers are taken, and whether the quotas suffice."""
    taken: list[list[IntArray]] = [[] for _ in supplies]
    pool_left: dict[QuotaPool, IntArray] = {}
    served = np.ones(len(vms[0]) if vms else 0, dtype=np.bool_)
    for t in order:
        taken[t], complete = _take_vms(supplies[t], vms[t], pool_left)
        served &= complete
    return taken, served


def _differs(taken: Sequence[Sequence[IntArray]], alone: Sequence[Sequence[IntArray]]) -> BoolArray:
    """Returns (R,) whether some type takes other VMs than it would without the other types."""
    pairs = [
        own != other
        for ours, others in zip(taken, alone, strict=True)
        for own, other in zip(ours, others, strict=True)
    ]
    return np.any(pairs, axis=0) if pairs else np.zeros(0, dtype=np.bool_)


def _deal(
    supplies: Sequence[TypeSupply],
    splits: Splits,
    batch_rule: BatchRule,
    taken: Sequence[Sequence[IntArray]],
) -> ConfigTable:
    """Returns one row per split: its workers on the VMs that were taken."""
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
        passes = passes_of(samples, workers, supply.batches.most, batch_rule)
        # One extra sample per worker of the full VMs first; what is left goes to the partial VM.
        extra_full = np.minimum(extra, full * gpus)
        extra_partial = extra - extra_full
        per_vm = extra_full // np.maximum(full, 1)
        high = extra_full - per_vm * full
        has_partial = (partial > 0).astype(np.int64)
        kinds = (
            (high, gpus * least + per_vm + 1, np.full_like(workers, gpus)),
            (full - high, gpus * least + per_vm, np.full_like(workers, gpus)),
            (has_partial, partial * least + extra_partial, partial),
        )
        kind_start = np.zeros_like(workers)
        for count, per_vm_samples, used in kinds:
            kind_end = kind_start + count
            offer_start = np.zeros_like(workers)
            for offer, of_offer in zip(supply.offers, taken[t], strict=True):
                offer_end = offer_start + of_offer
                overlap = np.minimum(kind_end, offer_end) - np.maximum(kind_start, offer_start)
                here = np.maximum(overlap, 0)
                if here.any():
                    columns.append((position[offer], here, per_vm_samples, used, passes))
                offer_start = offer_end
            kind_start = kind_end
    return _compress(offers, columns, len(splits))


def _take_vms(
    supply: TypeSupply, wanted: IntArray, pool_left: dict[QuotaPool, IntArray]
) -> tuple[list[IntArray], BoolArray]:
    """Returns how many VMs of each offer are taken, cheapest first, and whether they suffice.

    Args:
        supply: the type.
        wanted: (R,) VMs.
        pool_left: (R,) what is left of each shared quota; what is taken is subtracted.
    """
    left = wanted
    taken: list[IntArray] = []
    for offer in supply.offers:
        available = np.full_like(wanted, offer.quota)
        for pool in offer.pools:
            free = pool_left.setdefault(pool, np.full_like(wanted, pool.limit))
            available = np.minimum(available, free // pool.weight(supply.instance_type))
        here = np.minimum(left, available)
        for pool in offer.pools:
            pool_left[pool] = pool_left[pool] - here * pool.weight(supply.instance_type)
        taken.append(here)
        left = left - here
    return taken, left == 0


def passes_of(samples: IntArray, workers: IntArray, most: int, batch_rule: BatchRule) -> IntArray:
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
