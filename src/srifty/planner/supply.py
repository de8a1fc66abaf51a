"""What the search deals with: instance types, how many workers of each, which micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from srifty.core.hardware import InstanceType
from srifty.core.offers import Offer

# Types that can be had both ways, of which each choice is made: each doubles the search.
_MOST_CHOICES = 3


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Which micro-batches a GPU can take.

    Attributes:
        least: smallest usable micro-batch (BatchNorm models need 2).
        knee: smallest useful one: below it, a pass hardly gets shorter.
        most: largest one that fits in memory.
        measured: smallest and largest batch that was measured; beyond them latencies are
            extrapolated.
        verified: those that were run to see that they fit; empty: unknown.
    """

    least: int
    knee: int
    most: int
    measured: tuple[int, int] = (1, 1 << 62)
    verified: frozenset[int] = frozenset()


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
        return sum(offer.most_vms for offer in self.offers)

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
        if offer.most_vms > 0 and offer.instance_type.gpu in ranges:
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

    A place is one zone, with the offers that hold for its whole region; where crossing zones is
    allowed, also the whole region; or the machines that the user owns. A zone that another one
    matches or beats in each price and quota is left out.

    A reservation that ends too early is no use, and would stand before dearer VMs of its type. So
    a place with reservations comes several times: with all of them, and without those that end by
    each of their ends.

    Nor is the cheapest market always the best: VMs that can be lost delay all others. So a place
    also comes without those of each type that can be had otherwise. The expected cost of k of them
    among others, `(a − k d)(b + k c)` to first order, is concave in k: all or none are best.
    """
    return tuple(
        steady
        for place in _whole_places(offers, allow_cross_zone=allow_cross_zone)
        for lasting in _by_lasting(place)
        for steady in _by_steadiness(lasting)
    )


def _by_steadiness(place: tuple[Offer, ...]) -> Iterator[tuple[Offer, ...]]:
    """Yields the offers of a place: all, and without those that can be lost of some types.

    Of up to three types that can be had both ways each choice is made, of more only the same one
    for all.
    """
    steady = {offer.instance_type for offer in place if not offer.interruptions.per_hour}
    lossy = {offer.instance_type for offer in place if offer.interruptions.per_hour}
    both = [
        kind for kind in dict.fromkeys(o.instance_type for o in place) if kind in steady & lossy
    ]
    sizes = range(len(both) + 1) if len(both) <= _MOST_CHOICES else (0, len(both))
    for size in sizes:
        for without in combinations(both, size):
            yield tuple(
                offer
                for offer in place
                if offer.instance_type not in without or not offer.interruptions.per_hour
            )


def _by_lasting(place: tuple[Offer, ...]) -> Iterator[tuple[Offer, ...]]:
    """Yields the offers of a place that outlast each end of a reservation, all of them first."""
    ends_s = sorted({offer.ends_in_s for offer in place if offer.ends_in_s is not None})
    for end_s in (0.0, *ends_s):
        lasting = tuple(o for o in place if o.ends_in_s is None or o.ends_in_s > end_s)
        if lasting:
            yield lasting


def _whole_places(
    offers: Sequence[Offer], *, allow_cross_zone: bool
) -> tuple[tuple[Offer, ...], ...]:
    """Returns the offers of each place, reservations included however soon they end."""
    regions: dict[str, list[Offer]] = {}
    for offer in offers:
        regions.setdefault(offer.location.region, []).append(offer)
    places: list[tuple[Offer, ...]] = []
    for own in regions.values():
        zones = list(dict.fromkeys(o.location.zone for o in own if o.location.zone is not None))
        if not zones:
            places.append(tuple(own))
            continue
        candidates = [tuple(o for o in own if o.location.zone in (zone, None)) for zone in zones]
        kept: list[tuple[Offer, ...]] = []
        for index, place in enumerate(candidates):
            others = kept + candidates[index + 1 :]
            if not any(_dominates(other, place) for other in others):
                kept.append(place)
        places += kept
        if allow_cross_zone and len(zones) > 1:
            places.append(tuple(own))
    return tuple(places)


def _dominates(better: Sequence[Offer], worse: Sequence[Offer]) -> bool:
    """Whether each offer of `worse` has a match of its own in `better`: no dearer, no scarcer."""
    free = list(better)
    for w in worse:
        match = next((b for b in free if _matches(b, w)), None)
        if match is None:
            return False
        free.remove(match)
    return True


def _matches(better: Offer, worse: Offer) -> bool:
    """Whether an offer stands for another one of the same type and market, at no higher price."""
    return (
        better.instance_type == worse.instance_type
        and better.market == worse.market
        and better.usd_per_hour <= worse.usd_per_hour
        and better.quota >= worse.quota
        and better.pools == worse.pools
        and better.ends_in_s == worse.ends_in_s
        and better.interruptions.per_hour <= worse.interruptions.per_hour
        and better.interruptions.spread <= worse.interruptions.spread
        and better.billing == worse.billing
    )
