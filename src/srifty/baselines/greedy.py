"""Two rules of thumb that need no forecast (Luo et al. 2022, section 5.1).

* CGF, full batch, cheapest GPU first: every GPU takes as many samples as fit in its memory.
* FGF, magic batch, fastest GPU first: every GPU takes 64 samples; where the GPUs are too few for
  that, all are packed with as many as fit.

The last VM's GPUs share what is left of the global batch. Where all GPUs together do not hold the
global batch in one pass, all take as many passes as are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.job import BatchRule
from srifty.core.offers import Offer, QuotaPool
from srifty.planner import TypeSupply

MAGIC_BATCH = 64

Speed = Callable[[TypeSupply, int], float]


def full_batch_cheapest_first(
    supplies: Sequence[TypeSupply], global_batch: int, batch_rule: BatchRule
) -> ClusterConfig | None:
    """Returns CGF's choice in one place; None where the global batch cannot be dealt.

    Args:
        supplies: what can be had there.
        global_batch: samples of one iteration.
        batch_rule: powers of two pack the largest power of two that fits.
    """

    def price(supply: TypeSupply, offer: Offer) -> tuple[float, float]:
        return _usd_per_gpu(offer), -float(supply.batches.most)

    queue = _queue(supplies, price)
    full = {supply.instance_type.gpu: _full(supply, batch_rule) for supply in supplies}
    return _deal(queue, full, global_batch)


def magic_batch_fastest_first(
    supplies: Sequence[TypeSupply], global_batch: int, batch_rule: BatchRule, speed: Speed
) -> ClusterConfig | None:
    """Returns FGF's choice in one place; None where the global batch cannot be dealt.

    Args:
        supplies: what can be had there.
        global_batch: samples of one iteration.
        batch_rule: powers of two pack the largest power of two that fits.
        speed: samples per second of one GPU of a type at a batch.
    """
    full = {supply.instance_type.gpu: _full(supply, batch_rule) for supply in supplies}
    magic = {gpu: min(MAGIC_BATCH, most) for gpu, most in full.items()}

    def slowness(supply: TypeSupply, offer: Offer) -> tuple[float, float]:
        return -speed(supply, magic[supply.instance_type.gpu]), _usd_per_gpu(offer)

    queue = _queue(supplies, slowness)
    held = sum(supply.workers * magic[supply.instance_type.gpu] for supply in supplies)
    return _deal(queue, magic if held >= global_batch else full, global_batch)


def _usd_per_gpu(offer: Offer) -> float:
    return offer.usd_per_hour / offer.instance_type.gpus


def _full(supply: TypeSupply, batch_rule: BatchRule) -> int:
    most = supply.batches.most
    return 1 << (most.bit_length() - 1) if batch_rule is BatchRule.POWER_OF_TWO else most


def _queue(
    supplies: Sequence[TypeSupply], key: Callable[[TypeSupply, Offer], tuple[float, float]]
) -> list[tuple[TypeSupply, Offer]]:
    """Returns all offers with their types, in the order in which VMs are taken."""
    every = [(supply, offer) for supply in supplies for offer in supply.offers]
    return sorted(every, key=lambda pair: key(*pair))


def _deal(
    queue: Sequence[tuple[TypeSupply, Offer]], batch_of: dict[str, int], global_batch: int
) -> ClusterConfig | None:
    """Returns the VMs that are taken one after the other until the global batch is dealt."""
    available = _available(queue)
    held = sum(
        count * offer.instance_type.gpus * batch_of[offer.instance_type.gpu]
        for (_, offer), count in zip(queue, available, strict=True)
    )
    if not held:
        return None
    passes = -(-global_batch // held)
    groups: list[VmGroup] = []
    left = global_batch
    for (supply, offer), count in zip(queue, available, strict=True):
        gpus = offer.instance_type.gpus
        local = batch_of[offer.instance_type.gpu] * passes
        whole = min(count, left // (gpus * local))
        if whole:
            groups.append(VmGroup(offer, whole, gpus * local, gpus, passes))
            left -= whole * gpus * local
        if left and whole < count:  # the last VM
            used = min(gpus, left // supply.batches.least)
            if not used:
                return None
            own_passes = -(-left // (used * batch_of[offer.instance_type.gpu]))
            if left // used // own_passes < supply.batches.least:
                return None
            groups.append(VmGroup(offer, 1, left, used, own_passes))
            left = 0
        if not left:
            break
    return ClusterConfig(tuple(groups)) if groups and not left else None


def _available(queue: Sequence[tuple[TypeSupply, Offer]]) -> list[int]:
    """Returns how many VMs each offer has left when those before it are all taken."""
    pool_left: dict[QuotaPool, int] = {}
    counts: list[int] = []
    for _, offer in queue:
        count = offer.quota
        for pool in offer.pools:
            left = pool_left.setdefault(pool, pool.limit)
            count = min(count, left // pool.weight(offer.instance_type))
        for pool in offer.pools:
            pool_left[pool] -= count * pool.weight(offer.instance_type)
        counts.append(count)
    return counts
