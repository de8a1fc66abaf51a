"""What the search deals with: instance types, how many workers of each, which micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srifty.core.hardware import InstanceType
from srifty.core.offers import Offer


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Which micro-batches a GPU can take.

    Attributes:
        least: smallest usable micro-batch (BatchNorm models need 2).
        knee: smallest useful one: below it, a pass hardly gets shorter.
        most: largest one that fits in memory.
        measured: smallest and largest batch that was measured; beyond them latencies are
            extrapolated.
    """

    least: int
    knee: int
    most: int
    measured: tuple[int, int] = (1, 1 << 62)


@dataclass(frozen=True)
class TypeSupply:
    """All that can be had of one instance type.

    Attributes:
        instance_type: the VM shape.
        offers: its offers, cheapest first: a plan takes them in this order.
        batches: which micro-batches its GPU can take.
    """

    instance_type: InstanceType
    offers: tuple[Offer, ...]
    batches: BatchRange

    @property
    def vms(self) -> int:
        """VMs that can be had in all markets together."""
        return sum(offer.quota for offer in self.offers)

    @property
    def workers(self) -> int:
        """GPUs of all those VMs."""
        return self.vms * self.instance_type.gpus


def supplies_of(
    offers: Sequence[Offer], ranges: Mapping[str, BatchRange]
) -> tuple[TypeSupply, ...]:
    """Returns the supply of each instance type that can be used.

    Args:
        offers: what can be rented, in one place.
        ranges: micro-batch range by GPU model; types whose GPU is missing are left out.
    """
    by_type: dict[InstanceType, list[Offer]] = {}
    for offer in offers:
        if offer.quota > 0 and offer.instance_type.gpu in ranges:
            by_type.setdefault(offer.instance_type, []).append(offer)
    return tuple(
        TypeSupply(
            kind,
            tuple(sorted(own, key=lambda offer: (offer.usd_per_hour, offer.market))),
            ranges[kind.gpu],
        )
        for kind, own in by_type.items()
    )
