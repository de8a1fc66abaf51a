"""From what a job asks for to offers with prices, quotas, places and billing rules."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from srifty.catalog.billing import rule_for
from srifty.catalog.builtin import builtin_gpus, builtin_instance_types
from srifty.catalog.interruptions import interruption_rate
from srifty.catalog.price import Price
from srifty.catalog.quotes import STATED, PriceBook, Quote
from srifty.catalog.sanity import PriceReason, judge_price
from srifty.catalog.store import TypeRow
from srifty.core.billing import UNBILLED
from srifty.core.hardware import InstanceType
from srifty.core.interruptions import NEVER, InterruptionRate
from srifty.core.offers import Location, Market, Offer, QuotaPool, QuotaUnit
from srifty.core.supply import OwnedEntry, ReservedEntry, SupplyRequest
from srifty.errors import InputError, Problem
from srifty.units import GIB

# VMs that a quota in vCPUs alone allows at most: more than any plan of ours.
_NO_VM_QUOTA = 1_000_000
# Network between machines of the user's own, where nothing is said.
_OWNED_GBIT_PER_S = 10.0


@dataclass(frozen=True)
class Resolved:
    """The offers of a request.

    Attributes:
        offers: what can be rented.
        notes: how quotas were read, and what was assumed; full sentences.
        left_out: what the job asks for but cannot be had, and why; full sentences.
        on_demand_usd: on-demand prices per hour by instance type, offered or not; where known.
    """

    offers: tuple[Offer, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    on_demand_usd: dict[str, float] = field(default_factory=dict[str, float])


def resolve(
    request: SupplyRequest,
    own_prices: Sequence[Price] = (),
    own_types: Sequence[TypeRow] = (),
) -> Resolved:
    """Returns the offers of a request: the quota's types in its markets, with their prices.

    A type without a price in a market is left out there, and named with the reason; it is never
    silently offered in another market, or at another region's price.

    Args:
        request: what the job asks for.
        own_prices: prices of the user's own catalog.
        own_types: instance types of the user's own catalog.

    Raises:
        InputError: unknown instance types, or no offer at all; all are reported together.
    """
    resolver = _Resolver(request, own_prices, own_types)
    resolver.check_names()
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
        self._known = _known_types(request, own_types)
        self._without_network = {
            row.name: row
            for row in own_types
            if row.cloud == request.cloud and row.name not in self._known
        }
        self._prices = PriceBook(request.cloud, request.region, request.prices, own_prices)
        self._offers: list[Offer] = []
        self._notes: list[str] = []
        self._problems = [
            Problem(f"offers.prices.{name}", self._unknown(name))
            for name in dict.fromkeys(price.instance_type for price in request.prices)
            if name not in self._known
        ]
        self._problems += [
            Problem(
                f"offers.interruptions.{entry.instance_type}", self._unknown(entry.instance_type)
            )
            for entry in request.interruptions
            if entry.instance_type not in self._known
        ]
        self._left_out: list[Problem] = []

    def result(self) -> Resolved:
        if self._problems or not self._offers:
            raise InputError([*self._problems, *self._left_out])
        return Resolved(
            tuple(self._offers),
            tuple(self._notes) + self._quota_notes(),
            tuple(map(str, self._left_out)),
            self._on_demand_prices(),
        )

    def _on_demand_prices(self) -> dict[str, float]:
        names = dict.fromkeys(offer.instance_type.name for offer in self._offers)
        quotes = {name: self._prices.quotes(name, Market.ON_DEMAND) for name in names}
        return {name: min(q.usd_per_hour for q in found) for name, found in quotes.items() if found}

    def check_names(self) -> None:
        """Notes pools and zones that no type of the cloud and region knows."""
        request = self._request
        own = [kind for kind in self._known.values() if kind.cloud == request.cloud]
        pools = sorted({kind.quota_pool for kind in own if kind.quota_pool is not None})
        self._problems += [
            Problem(
                "offers.vcpu_quota",
                f"{entry}: {request.cloud} has no such pool that Srifty knows "
                f"({_listed(pools) if pools else 'none; give numbers of VMs'})",
            )
            for entry in request.vcpu_quota or ()
            if entry.pool not in pools
        ]
        zones = self._prices.zones()
        self._problems += [
            Problem("offers.zones", f"{zone}: prices are known in {_listed(zones)}")
            for zone in request.zones
            if zones and zone not in zones and not self._is_reserved_zone(zone)
        ]

    def _is_reserved_zone(self, zone: str) -> bool:
        return any(entry.zone == zone for entry in self._request.reserved)

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
                self._left_out.append(
                    Problem(
                        f"offers.quota.{name}",
                        f"has a quota in other markets than offers.markets ({asked}) alone: not "
                        "offered.",
                    )
                )
                continue
            missing = [
                market
                for market, vms in by_market.items()
                if not self._add_market(kind, market, vms)
            ]
            if missing:
                self._leave_out(name, missing)

    def _leave_out(self, name: str, markets: Sequence[Market]) -> None:
        """Notes that a type cannot be had in some markets, for want of a price."""
        request, which = self._request, " or ".join(markets)
        priced = [m for m in markets if request.zones and self._prices.quotes(name, m)]
        others = {r: None for m in markets for r in self._prices.elsewhere(name, m)}
        if priced:
            why = f"has no {which} price in {' or '.join(request.zones)}, only in other zones"
        elif others:
            why = f"has no {which} price in {request.region}, only in {_listed(list(others))}"
        else:
            why = (
                f"has no {which} price in {request.region} or elsewhere (zero is not taken from a "
                "catalog)"
            )
        self._left_out.append(
            Problem(
                f"offers.quota.{name}",
                f"{why}: not offered as {which}; state one: "
                f"offers.prices: {{{name}: {{{markets[0]}: 1.23}}}}",
            )
        )

    def _add_market(self, kind: InstanceType, market: Market, vms: int | None) -> bool:
        """Adds the offers of a type in one market, one a zone; returns whether it has a price.

        Prices that cannot be right are no offers; they are named by themselves.
        """
        request = self._request
        known = self._quotes_in_zones(kind.name, market)
        quotes = self._believable(kind, market, known)
        quota = _NO_VM_QUOTA if vms is None else vms
        pools = [
            QuotaPool(str(entry), entry.vcpus)
            for entry in request.vcpu_quota or ()
            if entry.market is market and entry.pool == kind.quota_pool
        ]
        if vms is None and not pools and quotes:
            need = "give a number of VMs: its quota in vCPUs is not known to Srifty"
            if kind.quota_pool is not None:
                need = (
                    f"has neither a number of VMs nor a vCPU quota for {market} {kind.quota_pool}; "
                    "give one"
                )
            self._problems.append(Problem(f"offers.quota.{kind.name}", need))
        if len(quotes) > 1 and vms is not None:  # one quota for the zones of the region together
            suffix = "" if market is Market.ON_DEMAND else f" ({market})"
            pools.append(QuotaPool(f"{kind.name}{suffix}", vms, QuotaUnit.VMS))
        self._offers += [
            Offer(
                kind,
                market,
                Location(request.region, quote.zone),
                quote.usd_per_hour,
                quota,
                price_source=quote.source,
                price_date=quote.date,
                pools=tuple(pools),
                billing=rule_for(kind.cloud),
                interruptions=self._interruptions(kind, market),
            )
            for quote in quotes
        ]
        return bool(known)

    def _interruptions(self, kind: InstanceType, market: Market) -> InterruptionRate:
        """Returns how often VMs are taken back, the user's word first."""
        request = self._request
        if market is not Market.SPOT:
            return NEVER
        stated = {entry.instance_type: entry.rate for entry in request.interruptions}
        known = stated.get(kind.name)
        return known or interruption_rate(kind.cloud, kind.name, request.region)

    def _believable(
        self, kind: InstanceType, market: Market, quotes: tuple[Quote, ...]
    ) -> tuple[Quote, ...]:
        """Returns the prices that can be right, or that the job states; the others are named."""
        kept: list[Quote] = []
        for quote in quotes:
            judged = judge_price(quote.usd_per_hour, kind.gpus)
            if quote.source == STATED or not isinstance(judged, PriceReason):
                kept.append(quote)
                continue
            place = quote.zone or self._request.region
            self._left_out.append(
                Problem(
                    f"offers.quota.{kind.name}",
                    f"its {market} price in {place} cannot be right ({quote.usd_per_hour:g} USD "
                    f"per hour, {quote.source}: {judged}): not used; state the right one under "
                    "offers.prices",
                )
            )
        return tuple(kept)

    def _quotes_in_zones(self, name: str, market: Market) -> tuple[Quote, ...]:
        """Returns a type's prices in the zones that were asked for, a region's price in each."""
        quotes, zones = self._prices.quotes(name, market), self._request.zones
        if not zones:
            return quotes
        regional = (replace(q, zone=zone) for q in quotes if q.zone is None for zone in zones)
        found = {quote.zone: quote for quote in regional}
        found |= {quote.zone: quote for quote in quotes if quote.zone in zones}
        return tuple(found.values())

    def add_reserved(self) -> None:
        """Adds the reserved VMs that can be used already."""
        for index, entry in enumerate(self._request.reserved):
            kind = self._find(f"offers.reserved.{index}.type", entry.instance_type)
            if kind is not None:
                self._add_reservation(kind, entry)

    def _add_reservation(self, kind: InstanceType, entry: ReservedEntry) -> None:
        zones = self._request.zones
        why = None
        if entry.starts_in_s > 0:
            why = "has not begun"
        elif entry.ends_in_s is not None and entry.ends_in_s <= 0:
            why = "is over"
        elif zones and entry.zone not in (None, *zones):
            why = f"lies in {entry.zone}, not in {' or '.join(zones)}"
        if why is not None:
            self._left_out.append(
                Problem("", f"The reservation of {kind.name} {why}: not offered.")
            )
            return
        self._offers.append(
            Offer(
                kind,
                Market.RESERVED,
                Location(self._request.region, entry.zone),
                entry.usd_per_hour,
                entry.count,
                price_source=STATED,
                ends_in_s=entry.ends_in_s,
                billing=rule_for(kind.cloud),
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
            try:
                self._offers.append(_owned_offer(entry, memory))
            except InputError as error:
                self._problems += [Problem(f"offers.owned.{index}", str(error))]

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
        row = self._without_network.get(name)
        if row is not None:
            return (
                "is in your catalog, but its network speed is not known; declare it: offers.types: "
                f"[{{name: {name}, gpu: {row.gpu}, gpus: {row.gpus}, gpu_memory_gib: "
                f"{row.gpu_memory_bytes / GIB:g}, vcpus: {row.vcpus}, rated_gbit_per_s: 10}}], but "
                "with its own sustained speed"
            )
        close = difflib.get_close_matches(name, self._known, n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else "."
        return f"unknown instance type{hint} Types of your own go under offers.types"

    def _quota_notes(self) -> tuple[str, ...]:
        """Returns how the quotas were read."""
        if not self._request.vcpu_quota:
            return ()
        used = {pool.name for offer in self._offers for pool in offer.pools}
        idle = [str(e) for e in self._request.vcpu_quota or () if str(e) not in used]
        words = ", ".join(f"{entry} {entry.vcpus}" for entry in self._request.vcpu_quota or ())
        notes = [f"Quotas in vCPUs, shared by the types of a family: {words}; others are in VMs."]
        if idle:
            notes.append(f"No offered type counts against: {', '.join(idle)}.")
        return tuple(notes)


def _known_types(request: SupplyRequest, own_types: Sequence[TypeRow]) -> dict[str, InstanceType]:
    """Returns the types by name: declared, built-in, the user's own; other clouds' last."""
    imported = [kind for row in own_types if (kind := _imported_type(row))]
    every = (*imported, *builtin_instance_types().values(), *request.declared)
    known = {kind.name: kind for kind in every}
    return known | {kind.name: kind for kind in every if kind.cloud == request.cloud}


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Returns names for people, the first few of many."""
    more = f" and {len(names) - most} others" if len(names) > most else ""
    return ", ".join(names[:most]) + more


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
        price_source=STATED,
        billing=UNBILLED,
    )
