"""Why Ray's autoscaler could not make a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from srifty.cloud.failures import Refusal, refusal_of


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
            found[name] = refusal_of(str(why.get("category", "")), str(why.get("description", "")))
    return found


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
