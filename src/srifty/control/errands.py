"""Which VMs to rent to measure a job: one of each GPU model, a pair of each family. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from srifty.core.offers import Market, Offer


class Measure(StrEnum):
    """What is measured.

    `PROFILE`: the model's steps on one GPU. `INSIDE`: allreduces among the GPUs of one VM.
    `BETWEEN`: allreduces among all GPUs of a pair.
    """

    PROFILE = "profile"
    INSIDE = "inside"
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Errand:
    """VMs that are rented together, and what is measured on them, one after the other.

    Attributes:
        name: letters, digits and hyphens; used once.
        offers: where the VMs may come from, the cheapest first.
        vms: how many.
        measures: what is measured.
    """

    name: str
    offers: tuple[Offer, ...]
    vms: int
    measures: tuple[Measure, ...]

    @property
    def usd_per_hour(self) -> float:
        """Price of its VMs at the dearest of its offers."""
        return self.vms * max(offer.usd_per_hour for offer in self.offers)


def family_of(offer: Offer) -> str:
    """Returns the family that an offer's type belongs to: `g4dn` of `g4dn.xlarge`."""
    return offer.instance_type.name.partition(".")[0]


def errands_of(offers: Sequence[Offer], *, profiles: bool) -> tuple[Errand, ...]:
    """Returns what to rent: all at the same time.

    Of each family with a quota of two VMs or more, the type whose pair is cheapest is probed
    between VMs, and inside one where it has several GPUs. Of each GPU model the cheapest VM is
    profiled on, one of a pair where that has the GPU. Machines of the user's own are left out: no
    back end rents them.

    Args:
        offers: what can be rented.
        profiles: whether there is a model to be profiled.
    """
    rented = [o for o in offers if o.market is not Market.OWNED and o.most_vms > 0]
    rented.sort(key=lambda offer: (offer.usd_per_hour, offer.instance_type.name))
    found: list[Errand] = []
    profiled: set[str] = set()
    for family in dict.fromkeys(map(family_of, rented)):
        mine = [offer for offer in rented if family_of(offer) == family]
        pairs = [offer for offer in mine if offer.most_vms >= 2]
        kind = (pairs or mine)[0].instance_type
        same = tuple(o for o in (pairs or mine) if o.instance_type == kind)
        measures = [Measure.PROFILE] if profiles and kind.gpu not in profiled else []
        measures += [Measure.INSIDE] if kind.gpus > 1 else []
        measures += [Measure.BETWEEN] if pairs else []
        if measures:
            found.append(Errand(_plain(family), same, 2 if pairs else 1, tuple(measures)))
            profiled |= {kind.gpu} if Measure.PROFILE in measures else set()
    left = [offer for offer in rented if profiles and offer.instance_type.gpu not in profiled]
    for gpu in dict.fromkeys(offer.instance_type.gpu for offer in left):
        kinds = [offer for offer in left if offer.instance_type.gpu == gpu]
        same = tuple(o for o in kinds if o.instance_type == kinds[0].instance_type)
        found.append(Errand(f"gpu-{_plain(gpu)}", same, 1, (Measure.PROFILE,)))
    return tuple(found)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)
