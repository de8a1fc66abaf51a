"""From what a job asks for to offers with prices, quotas, places and billing rules."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from srifty.catalog.billing import rule_for
from srifty.catalog.builtin import builtin_gpus, builtin_instance_types
from srifty.catalog.price import Price
from srifty.catalog.quotes import STATED, PriceBook
from srifty.catalog.store import TypeRow
from srifty.core.billing import UNBILLED
from srifty.core.hardware import InstanceType
from srifty.core.offers import Location, Market, Offer, QuotaPool
from srifty.core.supply import OwnedEntry, ReservedEntry, SupplyRequest
from srifty.errors import InputError, Problem

# VMs that a quota in vCPUs alone allows at most: more than any plan of ours.
_NO_VM_QUOTA = 1_000_000
# Network between machines of the user's own, where nothing is said.
_OWNED_GBIT_PER_S = 10.0


@dataclass(frozen=True)
class Resolved:
    """The offers of a request.

    Attributes:
        offers: what can be rented.
        notes: what could not be had, how quotas were read, how old prices are; full sentences.
    """

    offers: tuple[Offer, ...]
    notes: tuple[str, ...]


def resolve(
    request: SupplyRequest,
    own_prices: Sequence[Price] = (),
    own_types: Sequence[TypeRow] = (),
) -> Resolved:
    """Returns the offers of a request: the quota's types in its markets, with their prices.

    A type without a price in one of several markets is left out there and named in the notes; it
    is never silently offered in another market.

    Args:
        request: what the job asks for.
        own_prices: prices of the user's own catalog.
        own_types: instance types of the user's own catalog.

    Raises:
        InputError: unknown instance types, a type without any price, or no offer at all; all are
            reported together.
    """
    resolver = _Resolver(request, own_prices, own_types)
    resolver.add_quotas()
    resolver.add_reserved()
    resolver.add_owned()
    return resolver.result()


class _Resolver:
    """Collects the offers of one request, and all that is to be said of it."""

    def __init__(
        self,
        request: SupplyRequest,
        own_prices: Sequence[Price],
        own_types: Sequence[TypeRow],
    ) -> None:
        self._request = request
        imported = {row.name: kind for row in own_types if (kind := _imported_type(row))}
        declared = {kind.name: kind for kind in request.declared}
        self._known = imported | builtin_instance_types() | declared
        self._without_network = {row.name for row in own_types} - set(self._known)
        self._prices = PriceBook(request.region, request.prices, own_prices)
        self._offers: list[Offer] = []
        self._notes: list[str] = []
        self._problems = [
            Problem(f"offers.prices.{name}", self._unknown(name))
            for name in dict.fromkeys(price.instance_type for price in request.prices)
            if name not in self._known
        ]
        self._unasked: list[Problem] = []

    def result(self) -> Resolved:
        if self._problems or not self._offers:
            raise InputError([*self._problems, *self._unasked])
        notes = [*self._notes, *map(str, self._unasked)]
        return Resolved(tuple(self._offers), tuple(notes) + self._quota_notes())

    def add_quotas(self) -> None:
        """Adds the types of the quota, in each market that was asked for."""
        request = self._request
        for name in dict.fromkeys(entry.instance_type for entry in request.quota):
            kind = self._find(f"offers.quota.{name}", name)
            if kind is None:
                continue
            by_market = {
                market: entry.vms
                for entry in request.quota
                if entry.instance_type == name
                for market in (request.markets if entry.market is None else (entry.market,))
                if market in request.markets
            }
            if not by_market:
                asked = ", ".join(request.markets)
                self._unasked.append(
                    Problem(
                        f"offers.quota.{name}",
                        f"has a quota in other markets than offers.markets ({asked}) alone: not "
                        "offered.",
                    )
                )
                continue
            missing = [
                str(market)
                for market, vms in by_market.items()
                if not self._add_market(kind, market, vms)
            ]
            if len(missing) == len(by_market):
                self._problems.append(
                    Problem(
                        f"offers.quota.{name}",
                        f"has no {' or '.join(missing)} price in {request.region}; state one: "
                        f"offers.prices: {{{name}: {{{missing[0]}: 1.23}}}}",
                    )
                )
            elif missing:
                self._notes.append(
                    f"{name} has no {' or '.join(missing)} price in {request.region}: not offered "
                    "there."
                )

    def _add_market(self, kind: InstanceType, market: Market, vms: int | None) -> bool:
        """Adds the offers of a type in one market, one a zone; returns whether it has a price."""
        request = self._request
        quotes = self._prices.quotes(kind.name, market)
        if request.zones:
            quotes = tuple(q for q in quotes if q.zone is None or q.zone in request.zones)
        quota = _NO_VM_QUOTA if vms is None else vms
        pools = [
            QuotaPool(str(entry), entry.vcpus)
            for entry in request.vcpu_quota
            if entry.market is market and entry.pool == kind.quota_pool
        ]
        if vms is None and not pools and quotes:
            family = kind.quota_pool or "its family"
            self._problems.append(
                Problem(
                    f"offers.quota.{kind.name}",
                    f"has neither a number of VMs nor a vCPU quota for {market} {family}; give one",
                )
            )
        if len(quotes) > 1 and vms is not None:  # one quota for the zones of the region together
            pools.append(QuotaPool(f"{market} {kind.name} ({vms} VMs)", vms * kind.vcpus))
        for quote in quotes:
            self._offers.append(
                Offer(
                    kind,
                    market,
                    Location(request.region, quote.zone),
                    quote.usd_per_hour,
                    quota,
                    quote.source,
                    quote.date,
                    tuple(pools),
                    None,
                    rule_for(kind.cloud),
                )
            )
        return bool(quotes)

    def add_reserved(self) -> None:
        """Adds the reserved VMs that can be used already."""
        for index, entry in enumerate(self._request.reserved):
            kind = self._find(f"offers.reserved.{index}.type", entry.instance_type)
            if kind is not None:
                self._add_reservation(kind, entry)

    def _add_reservation(self, kind: InstanceType, entry: ReservedEntry) -> None:
        if entry.starts_in_s > 0:
            self._notes.append(f"The reservation of {kind.name} has not begun: not offered.")
            return
        if entry.ends_in_s is not None and entry.ends_in_s <= 0:
            self._notes.append(f"The reservation of {kind.name} is over: not offered.")
            return
        self._offers.append(
            Offer(
                kind,
                Market.RESERVED,
                Location(self._request.region, entry.zone),
                entry.usd_per_hour,
                entry.count,
                STATED,
                None,
                (),
                entry.ends_in_s,
                rule_for(kind.cloud),
            )
        )

    def add_owned(self) -> None:
        """Adds the user's own machines: a place of their own."""
        for index, entry in enumerate(self._request.owned):
            memory = entry.gpu_memory_bytes
            if memory is None and entry.gpu in builtin_gpus():
                memory = builtin_gpus()[entry.gpu].memory_bytes
            if memory is None:
                self._problems.append(
                    Problem(
                        f"offers.owned.{index}",
                        f"the memory of a {entry.gpu} is not known; give gpu_memory_gib",
                    )
                )
                continue
            if entry.rated_gbit_per_s is None and entry.count > 1:
                self._notes.append(
                    f"{entry.name}: no network speed is given (rated_gbit_per_s); "
                    f"{_OWNED_GBIT_PER_S:g} Gbit/s are assumed between machines."
                )
            self._offers.append(_owned_offer(entry, memory))

    def _find(self, where: str, name: str) -> InstanceType | None:
        """Returns the type of that name, or notes what is wrong with it."""
        kind = self._known.get(name)
        if kind is None:
            self._problems.append(Problem(where, self._unknown(name)))
            return None
        if kind.cloud != self._request.cloud:
            self._problems.append(Problem(where, f"is {kind.cloud}'s, not {self._request.cloud}'s"))
            return None
        return kind

    def _unknown(self, name: str) -> str:
        if name in self._without_network:
            return (
                "is in your catalog, but its network speed is not known; declare it under "
                "offers.types"
            )
        close = difflib.get_close_matches(name, self._known, n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else "."
        return f"unknown instance type{hint} Types of your own go under offers.types"

    def _quota_notes(self) -> tuple[str, ...]:
        """Returns how the quotas were read."""
        if not self._request.vcpu_quota:
            return ()
        used = {pool.name for offer in self._offers for pool in offer.pools}
        idle = [str(e) for e in self._request.vcpu_quota if str(e) not in used]
        words = ", ".join(f"{entry} {entry.vcpus}" for entry in self._request.vcpu_quota)
        notes = [f"Quotas in vCPUs, shared by the types of a family: {words}; others are in VMs."]
        if idle:
            notes.append(f"No offered type counts against: {', '.join(idle)}.")
        return tuple(notes)


def _imported_type(row: TypeRow) -> InstanceType | None:
    """Returns an imported type as far as it can be used: its network speed must be known."""
    if row.rated_gbit_per_s is None:
        return None
    return InstanceType(
        name=row.name,
        cloud=row.cloud,
        gpu=row.gpu,
        gpus=row.gpus,
        gpu_memory_bytes=row.gpu_memory_bytes,
        vcpus=row.vcpus,
        rated_gbit_per_s=row.rated_gbit_per_s,
        source=row.source,
    )


def _owned_offer(entry: OwnedEntry, gpu_memory_bytes: int) -> Offer:
    machine = InstanceType(
        name=entry.name,
        cloud=UNBILLED.provider,
        gpu=entry.gpu,
        gpus=entry.gpus,
        gpu_memory_bytes=gpu_memory_bytes,
        vcpus=entry.vcpus,
        rated_gbit_per_s=entry.rated_gbit_per_s or _OWNED_GBIT_PER_S,
        cpu_vendor=entry.cpu_vendor,
        nvlink=entry.nvlink,
        source=STATED,
    )
    return Offer(
        machine,
        Market.OWNED,
        Location(""),
        entry.usd_per_hour,
        entry.count,
        STATED,
        billing=UNBILLED,
    )
