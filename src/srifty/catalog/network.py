"""What a plan assumes of placement groups and of AWS's fabric, and what turning them off means."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.core.offers import Offer

# One flow between EC2 VMs (EC2 user guide, instance network bandwidth).
_FLOW_GBIT_PER_S = 5
_GROUP_FLOW_GBIT_PER_S = 10


def network_notes(
    offers: Sequence[Offer], vms: int, *, efa: str, placement_group: str
) -> tuple[str, ...]:
    """Returns what a plan on several VMs takes for granted, in full sentences.

    Args:
        offers: the offers of the plan.
        vms: its VMs; the notes concern the network between them.
        efa: `on`, `off` or `auto`.
        placement_group: likewise.
    """
    kinds = tuple(dict.fromkeys(o.instance_type for o in offers if o.instance_type.cloud == "aws"))
    if vms < 2 or not kinds:
        return ()
    notes: list[str] = []
    able = [kind.name for kind in kinds if kind.efa]
    if efa == "auto" and able:
        notes.append(
            f"EFA ({', '.join(able)}): unknown whether the run uses it; where TCP was measured "
            "too, the slower counts (network.efa: on or off decides)."
        )
    elif efa == "on" and len(able) < len(kinds):
        names = ", ".join(kind.name for kind in kinds if not kind.efa)
        notes.append(f"EFA is on, but {names} does not offer it: TCP there.")
    if placement_group == "off":
        notes.append(
            f"Without a placement group EC2 caps a flow at {_FLOW_GBIT_PER_S} Gbit/s; measurements "
            "made inside one are too good for this run."
        )
    elif len({o.location.zone for o in offers} - {None}) > 1:
        notes.append(
            f"The VMs lie in several zones, so in no placement group: a flow reaches "
            f"{_FLOW_GBIT_PER_S} Gbit/s, and measurements made inside one are too good for this "
            "run."
        )
    elif placement_group == "auto":
        unable = [kind.name for kind in kinds if kind.placement_groups is False]
        where = f", except for {', '.join(unable)}" if unable else ""
        notes.append(
            f"VMs are assumed to lie in one placement group{where} (a flow reaches "
            f"{_GROUP_FLOW_GBIT_PER_S} Gbit/s there, {_FLOW_GBIT_PER_S} outside)."
        )
    return tuple(notes)
