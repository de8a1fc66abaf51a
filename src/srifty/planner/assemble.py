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
    possible. VMs take the cheapest offers first. Where types share a quota in vCPUs, each type is
    once the first to take from it; splits that exceed it are left out.

    Args:
        supplies: the T types of the splits.
        splits: R splits.
        batch_rule: powers of two accumulate over a power of two of passes.
    """
    tables: list[ConfigTable] = []
    rows: list[IntArray] = []
    prices: list[NDArray[np.float64]] = []
    for order in _type_orders(supplies):
        configs, served = _assemble_in_order(supplies, splits, batch_rule, order)
        price = np.where(served, configs.usd_per_hour, np.inf)
        new = served & np.all([price != other for other in prices] or [served], axis=0)
        prices.append(price)
        kept = np.flatnonzero(new)
        tables.append(configs.take(kept))
        rows.append(kept)
    narrowing = "types take from a shared vCPU quota one after the other" if len(tables) > 1 else ""
    return Assembled(ConfigTable.concatenate(tables), np.concatenate(rows), narrowing)


def _type_orders(supplies: Sequence[TypeSupply]) -> list[list[int]]:
    """Returns the orders in which types take their VMs: one, unless they share a pool."""
    types = list(range(len(supplies)))
    pools = [{pool for offer in supply.offers for pool in offer.pools} for supply in supplies]
    shared = any(pools[a] & pools[b] for a in types for b in types if a < b)
    if not shared:
        return [types]
    return [[first, *(t for t in types if t != first)] for first in types]


def _assemble_in_order(
    supplies: Sequence[TypeSupply],
    splits: Splits,
    batch_rule: BatchRule,
    order: Sequence[int],
) -> tuple[ConfigTable, NDArray[np.bool_]]:
    """Returns one row per split, and which of them quotas allow."""
    offers = tuple(offer for supply in supplies for offer in supply.offers)
    position = {offer: index for index, offer in enumerate(offers)}
    columns: list[tuple[int, IntArray, IntArray, IntArray, IntArray]] = []
    pool_left: dict[QuotaPool, IntArray] = {}
    served = np.ones(len(splits), dtype=np.bool_)
    for t in order:
        supply = supplies[t]
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
        has_partial = (partial > 0).astype(np.int64)
        kinds = (
            (high, gpus * least + per_vm + 1, np.full_like(workers, gpus)),
            (full - high, gpus * least + per_vm, np.full_like(workers, gpus)),
            (has_partial, partial * least + extra_partial, partial),
        )
        taken, complete = _take_vms(supply, full + has_partial, pool_left)
        served &= complete
        kind_start = np.zeros_like(workers)
        for count, per_vm_samples, used in kinds:
            kind_end = kind_start + count
            offer_start = np.zeros_like(workers)
            for offer, of_offer in zip(supply.offers, taken, strict=True):
                offer_end = offer_start + of_offer
                overlap = np.minimum(kind_end, offer_end) - np.maximum(kind_start, offer_start)
                here = np.maximum(overlap, 0)
                if here.any():
                    columns.append((position[offer], here, per_vm_samples, used, passes))
                offer_start = offer_end
            kind_start = kind_end
    return _compress(offers, columns, len(splits)), served


def _take_vms(
    supply: TypeSupply, wanted: IntArray, pool_left: dict[QuotaPool, IntArray]
) -> tuple[list[IntArray], NDArray[np.bool_]]:
    """Returns how many VMs of each offer are taken, cheapest first, and whether they suffice.

    Args:
        supply: the type.
        wanted: (R,) VMs.
        pool_left: (R,) vCPUs left in each pool; what is taken is subtracted.
    """
    vcpus = supply.instance_type.vcpus
    left = wanted
    taken: list[IntArray] = []
    for offer in supply.offers:
        available = np.full_like(wanted, offer.quota)
        for pool in offer.pools:
            free = pool_left.setdefault(pool, np.full_like(wanted, pool.vcpus))
            available = np.minimum(available, free // vcpus)
        here = np.minimum(left, available)
        for pool in offer.pools:
            pool_left[pool] = pool_left[pool] - here * vcpus
        taken.append(here)
        left = left - here
    return taken, left == 0


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
