"""Writes `docs/catalog.md` from the built-in tables alone, so that the page cannot drift."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

_INTRODUCTION = """\
# The built-in catalog

Written by `python tools/catalog_tables.py --data ../shared/data` from the tables in
`src/srifty/data`; do not edit by hand. Every row of these tables names its sources, which are
listed at the end.

Prices are snapshots and out of date by the time you read this: state yours under `offers.prices`.
"""

_TYPES = """\
## Instance types

*Gbit/s*: the speed that the provider rates as sustained (on Google, the cap on what leaves a VM),
and *up to* it for a while where more is promised. None of them is a model of an allreduce. *EFA*:
AWS's fabric. *Close*: placement groups (compact placement on Google). *Pool*: the quota of vCPUs
that the type counts in. `?`: not known.
"""

_PRICES = """\
## Prices

USD per VM and hour. On-demand prices hold for all zones of a region, and so do Google's spot
prices; EC2's spot prices are one per zone, shown from the lowest to the highest. Local zones are
left out. Types without a price (N1 with GPUs) need one under `offers.prices`.
"""

_BILLING = """\
## Billing rules

Seconds and US dollars; a rule holds from its day on.
"""

_SOURCES = """\
## Sources
"""


def page(folder: Path) -> str:
    """Returns the whole page as Markdown.

    Args:
        folder: the folder of the built-in tables.
    """
    types, prices = _rows(folder / "instance_types.csv"), _rows(folder / "prices.csv")
    billing = json.loads((folder / "billing.json").read_text(encoding="utf-8"))
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    return "\n".join(
        (
            _INTRODUCTION,
            _TYPES,
            _type_table(types),
            _PRICES,
            _price_table(types, prices),
            _BILLING,
            _billing_table(billing),
            _SOURCES,
            _source_list(sources),
        )
    )


def _type_table(types: Sequence[dict[str, str]]) -> str:
    yes_no = {"true": "yes", "false": "no", "": "?"}
    return _table(
        "cloud|type|GPUs|vCPUs|CPU|Gbit/s|NVLink|EFA|close|pool|sources",
        [
            [
                row["cloud"],
                row["name"],
                f"{row['gpus']} x {row['gpu']}",
                row["vcpus"],
                row["cpu_vendor"] or "?",
                row["rated_gbit_per_s"]
                + (f", up to {row['burst_gbit_per_s']}" if row["burst_gbit_per_s"] else ""),
                yes_no[row["nvlink"]],
                yes_no[row["efa"]],
                yes_no[row["placement_groups"]],
                row["quota_pool"] or "-",
                row["source"].replace(";", ", "),
            ]
            for row in types
        ],
    )


def _price_table(types: Sequence[dict[str, str]], prices: Sequence[dict[str, str]]) -> str:
    groups: dict[tuple[str, str], dict[str, list[dict[str, str]]]] = {}
    for price in prices:
        markets = groups.setdefault((price["instance_type"], price["region"]), {})
        markets.setdefault(price["market"], []).append(price)
    rows: list[list[str]] = []
    for kind in types:
        for (name, region), markets in groups.items():
            if name == kind["name"]:
                seen = [price for found in markets.values() for price in found]
                rows.append(
                    [
                        name,
                        region,
                        _span(markets.get("on-demand", [])),
                        _span(markets.get("spot", [])),
                        ", ".join(dict.fromkeys(price["date"] or "undated" for price in seen)),
                        ", ".join(dict.fromkeys(price["source"] for price in seen)),
                    ]
                )
    return _table("type|region|on-demand|spot|date|source", rows)


def _span(prices: Sequence[dict[str, str]]) -> str:
    """Returns a price, or the lowest and highest over a region's zones."""
    if not prices:
        return "none"
    ordered = sorted((price["usd_per_hour"] for price in prices), key=float)
    if not prices[0]["zone"]:
        return ordered[0]
    span = ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"
    return f"{span} ({len(prices)} {'zone' if len(prices) == 1 else 'zones'})"


def _billing_table(rules: Sequence[dict[str, object]]) -> str:
    return _table(
        "provider|since|rounded up to|at least|spot free if taken back within"
        "|GB across zones|GB of disk and month|sources",
        [
            [
                str(rule["provider"]),
                str(rule["since"]),
                f"{rule['granularity_s']:g} s",
                f"{rule['minimum_s']:g} s",
                f"{rule['spot_free_s']:g} s",
                f"{rule['cross_zone_usd_per_gb']:g}",
                f"{rule['disk_usd_per_gb_month']:g}",
                str(rule["source"]).replace(";", ", "),
            ]
            for rule in rules
        ],
    )


def _source_list(sources: dict[str, dict[str, str | None]]) -> str:
    return "".join(
        f"* **{key}** ({source['date'] or 'undated'}): {source['what']}. {source['where']}."
        + (f" {source['note']}" if source["note"] else "")
        + "\n"
        for key, source in sources.items()
    )


def _table(head: str, rows: Sequence[Sequence[str]]) -> str:
    names = head.split("|")
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
