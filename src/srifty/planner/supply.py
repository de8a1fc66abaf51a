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
    """

    least: int
    knee: int
    most: int


@dataclass(frozen=True)
class TypeSupply:
    """All that can be had of one instance type in one place.

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
        return sum(most_vms(offer) for offer in self.offers)

    @property
    def workers(self) -> int:
        """GPUs of all those VMs."""
        return self.vms * self.instance_type.gpus


def most_vms(offer: Offer) -> int:
    """Returns how many VMs of an offer can be had, its quotas in VMs and in vCPUs considered."""
    by_pool = (pool.vcpus // offer.instance_type.vcpus for pool in offer.pools)
    return min((offer.quota, *by_pool))


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
        if most_vms(offer) > 0 and offer.instance_type.gpu in ranges:
            by_type.setdefault(offer.instance_type, []).append(offer)
    return tuple(
        TypeSupply(
            kind,
            tuple(sorted(own, key=lambda offer: (offer.usd_per_hour, offer.market))),
            ranges[kind.gpu],
        )
        for kind, own in by_type.items()
    )


def places_of(offers: Sequence[Offer], *, allow_cross_zone: bool) -> tuple[tuple[Offer, ...], ...]:
    """Returns the offers of each place in which a job could run, none of them dominated.

    A place is one zone, with the offers that hold for its whole region; or a whole region, where
    crossing zones is allowed; or the machines that the user owns. A zone that another one matches
    or beats in each price and quota is left out.
    """
    regions: dict[str, list[Offer]] = {}
    for offer in offers:
        regions.setdefault(offer.location.region, []).append(offer)
    places: list[tuple[Offer, ...]] = []
    for own in regions.values():
        zones = list(dict.fromkeys(o.location.zone for o in own if o.location.zone is not None))
        if allow_cross_zone or not zones:
            places.append(tuple(own))
            continue
        candidates = [tuple(o for o in own if o.location.zone in (zone, None)) for zone in zones]
        kept: list[tuple[Offer, ...]] = []
        for index, place in enumerate(candidates):
            others = kept + candidates[index + 1 :]
            if not any(_dominates(other, place) for other in others):
                kept.append(place)
        places += kept
    return tuple(places)


def _dominates(better: Sequence[Offer], worse: Sequence[Offer]) -> bool:
    """Whether each offer of `worse` has a match in `better`: no dearer, in no smaller quota."""
    return all(
        any(
            b.instance_type == w.instance_type
            and b.market == w.market
            and b.usd_per_hour <= w.usd_per_hour
            and b.quota >= w.quota
            and b.pools == w.pools
            and b.ends_in_s == w.ends_in_s
            for b in better
        )
        for w in worse
    )
