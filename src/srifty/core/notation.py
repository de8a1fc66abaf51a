"""The short notation of a cluster configuration, both ways.

`<num><instance>@<samples per VM>`, groups joined by ` + `:

    1p3.8xlarge@512 + 8g3.8xlarge (spot)@64

Two optional parts follow where they are needed: `:2gpu` after the type where not all GPUs of a VM
are used, and `x4` after the samples where gradients are accumulated over four passes:

    1g4dn.12xlarge:2gpu@2 + 8g3.8xlarge@512x4

A configuration that spans zones names them: `2g4dn.xlarge (spot, use1-az1)@32`.

GPUs that are not mentioned are all used, or as many as the VM has samples.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.offers import Market, Offer
from srifty.errors import InputError, NotationError

_GROUP = re.compile(
    r"(?P<count>\d+)\s*(?P<type>[A-Za-z][^\s@():,]*)"
    r"(?:\s*\((?P<market>[A-Za-z-]+)(?:\s*,\s*(?P<zone>[A-Za-z0-9-]+))?\))?"
    r"(?:\s*:\s*(?P<gpus>\d+)\s*gpus?)?"
    r"\s*@\s*(?P<samples>\d+)"
    r"(?:\s*x\s*(?P<accumulation>\d+))?"
)
_JOIN = re.compile(r"\s*\+\s*")


def format_group(group: VmGroup, *, zone: bool = False) -> str:
    """Returns one VM group in the short notation, with its zone where that is wanted."""
    offer = group.offer
    label = offer.label
    if zone and offer.location.zone is not None:
        label = f"{offer.instance_type.name} ({offer.market}, {offer.location.zone})"
    unused = group.offer.instance_type.gpus != group.gpus_used
    gpus = f":{group.gpus_used}gpu" if unused else ""
    accumulation = f"x{group.accumulation}" if group.accumulation > 1 else ""
    return f"{group.count}{label}{gpus}@{group.samples_per_vm}{accumulation}"


def format_config(config: ClusterConfig) -> str:
    """Returns a cluster configuration in the short notation."""
    zones = {group.offer.location.zone for group in config.groups} - {None}
    return " + ".join(format_group(group, zone=len(zones) > 1) for group in config.groups)


def parse_config(text: str, offers: Sequence[Offer]) -> ClusterConfig:
    """Returns the cluster configuration that a text in the short notation stands for.

    Args:
        text: such as `1p3.8xlarge@512 + 8g3.8xlarge (spot)@64`.
        offers: what can be rented; a type without a market takes its on-demand offer, or its only
            one.

    Raises:
        NotationError: a group does not parse, names an unknown offer, or is impossible (more GPUs
            than the VM has, fewer samples than GPUs). All bad groups are reported together.
    """
    groups: list[VmGroup] = []
    messages: list[str] = []
    for part in _parts(text.strip()):
        try:
            groups.append(_parse_group(part, offers))
        except InputError as error:
            messages.append(str(error))
    if messages:
        raise NotationError("; ".join(messages))
    return ClusterConfig(tuple(groups))


def _parts(text: str) -> list[str]:
    """Returns the texts of the groups: `+` joins groups, but a type's name may hold one too."""
    parts: list[str] = []
    position = 0
    while position < len(text):
        group = _GROUP.match(text, position)
        end = group.end() if group else -1
        join = _JOIN.match(text, end) if group else None
        if group is None or (join is None and end < len(text)):  # let the message show the rest
            found = re.search(r"\s\+\s", text[position:])
            end = position + found.start() if found else len(text)
            join = _JOIN.match(text, end)
        parts.append(text[position:end])
        position = join.end() if join else end
    return parts or [text]


def _parse_group(part: str, offers: Sequence[Offer]) -> VmGroup:
    match = _GROUP.fullmatch(part.strip())
    if match is None:
        raise NotationError(
            f"{part!r} is not a VM group; write <num><instance>@<samples per VM>, such as "
            "8g3.8xlarge@64 or 8g3.8xlarge (spot)@64, then x2 for two passes, :2gpu after the type "
            "for two GPUs a VM; join groups with ' + '"
        )
    offer = _find_offer(match["type"], match["market"], match["zone"], offers)
    samples = int(match["samples"])
    gpus = int(match["gpus"]) if match["gpus"] else min(offer.instance_type.gpus, samples)
    return VmGroup(
        offer=offer,
        count=int(match["count"]),
        samples_per_vm=samples,
        gpus_used=gpus,
        accumulation=int(match["accumulation"] or 1),
    )


def _find_offer(name: str, market: str | None, zone: str | None, offers: Sequence[Offer]) -> Offer:
    same_type = [offer for offer in offers if offer.instance_type.name == name]
    if not same_type:
        known = ", ".join(sorted({offer.instance_type.name for offer in offers})) or "none"
        raise NotationError(f"{name!r} is not among the offers (there are: {known})")
    markets = sorted({offer.market for offer in same_type})
    if market is None:
        market = Market.ON_DEMAND if Market.ON_DEMAND in markets or len(markets) > 1 else markets[0]
        asked = "without a market"
    else:
        asked = f"as {market}"
    matching = [offer for offer in same_type if offer.market == market.lower()]
    if not matching:
        raise NotationError(f"{name} cannot be had {asked}; it is offered as: {', '.join(markets)}")
    if zone is not None:
        zones = sorted({str(offer.location) for offer in matching})
        matching = [offer for offer in matching if offer.location.zone == zone]
        if not matching:
            raise NotationError(
                f"{name} cannot be had {asked} in {zone}; it is offered in: {', '.join(zones)}"
            )
    return min(matching, key=lambda offer: offer.usd_per_hour)
