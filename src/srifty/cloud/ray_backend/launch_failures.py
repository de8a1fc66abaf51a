"""Why there is no node for a VM."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, cast

from srifty.cloud.failures import Refusal, refusal_of
from srifty.core.events import LaunchFailure

# Nodes that are just being started by hand are waited for so long.
_JOINS_WITHIN_S = 20.0


def refusals(status: Mapping[str, Any], since_unix_s: float) -> dict[str, Refusal]:
    """Returns the cloud's refusal for each node type that could not be made.

    Args:
        status: what the autoscaler reports.
        since_unix_s: what it reported before, seconds since 1970, belongs to earlier requests.
    """
    report = _mapping(status.get("autoscaler_report"))
    summary = _mapping(report.get("node_availability_summary"))
    found: dict[str, Refusal] = {}
    for name, told in _mapping(summary.get("node_availabilities")).items():
        entry = _mapping(told)
        why = _mapping(entry.get("unavailable_node_information"))
        if why and entry.get("last_checked_timestamp", 0.0) >= since_unix_s:
            found[name] = _refusal(str(why.get("category", "")), str(why.get("description", "")))
    return found


def _refusal(code: str, text: str) -> Refusal:
    """Returns what an answer means, of which Ray keeps the last one.

    Where a cluster has subnets in several zones, Ray tries all of them for a node that must be in
    one. That the last one lay elsewhere hides why the right one did not do, which a later request
    may find out: no capacity is what it mostly is.
    """
    refusal = refusal_of(code, text)
    is_elsewhere = code == "InvalidParameterValue" and "subnet" in text.lower()
    return replace(refusal, kind=LaunchFailure.CAPACITY) if is_elsewhere else refusal


def unplaced(
    requests: Mapping[str, Mapping[str, Any]], running: Set[str], resources: Mapping[str, float]
) -> dict[str, str]:
    """Returns why VMs do not come for which a cluster of one's own has no node; all others do.

    Args:
        requests: for VMs that are wanted, by name.
        running: those of them that run.
        resources: of the cluster's living nodes.
    """
    found: dict[str, str] = {}
    for kind in {request["node_type"] for request in requests.values()}:
        mine = {vm: each for vm, each in requests.items() if each["node_type"] == kind}
        waiting = sorted(
            (vm for vm in mine if vm not in running), key=lambda vm: mine[vm]["asked_unix_s"]
        )
        room = max(int(resources.get(kind, 0)) - (len(mine) - len(waiting)), 0)
        for vm in waiting[room:]:
            if time.time() - mine[vm]["asked_unix_s"] > _JOINS_WITHIN_S:
                found[vm] = (
                    f"the cluster has no node for it; one is added by ray start --address=HEAD "
                    f"--num-gpus={mine[vm]['gpus']} --resources='{{\"{kind}\": 1}}'"
                )
    return found


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
