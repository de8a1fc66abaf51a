"""What we ask of AWS, and how its answers read. Pure: no network, no clock.

All calls only read. The shapes are those of the EC2, Price List and Service Quotas APIs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from srifty.catalog.gpu_names import our_gpu
from srifty.catalog.price import Price
from srifty.catalog.sanity import PriceReason, judge_price
from srifty.catalog.store import QuotaRow, TypeRow
from srifty.core.offers import Market

PRICE_LIST_REGION = "us-east-1"  # the Price List API answers for all regions from here
_FILTER_VALUES = 100  # EC2 takes at most 200 values in a filter
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# The two products that a price list names for a Linux VM's hour, beside reservations and licences.
_PRODUCT = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call, with all its pages.

    Attributes:
        service: the API, as boto3 names it: `ec2`, `pricing`, `service-quotas`.
        operation: as boto3 names it: `describe_spot_price_history`.
        region: the region that is asked.
        request: the parameters.
        purpose: what it is for, in words.
    """

    service: str
    operation: str
    region: str
    request: Mapping[str, Any] = field(hash=False)
    purpose: str

    def __str__(self) -> str:
        request = json.dumps(self.request, default=_plain)
        return f"{self.service}.{self.operation} in {self.region}: {request}"

    def document(self) -> dict[str, Any]:
        """Returns the call for JSON."""
        return {
            "service": self.service,
            "operation": self.operation,
            "region": self.region,
            "request": json.loads(json.dumps(self.request, default=_plain)),
            "purpose": self.purpose,
        }


@dataclass(frozen=True, slots=True)
class QuotaCode:
    """A quota in vCPUs.

    Attributes:
        code: AWS's code.
        pool: our name of the pool.
        market: on-demand or spot.
        title: AWS's name.
    """

    code: str
    pool: str
    market: Market
    title: str


QUOTA_CODES = (
    QuotaCode("L-DB2E81BA", "G", Market.ON_DEMAND, "Running On-Demand G and VT instances"),
    QuotaCode("L-417A185B", "P", Market.ON_DEMAND, "Running On-Demand P instances"),
    QuotaCode("L-3819A6DF", "G", Market.SPOT, "All G and VT Spot Instance Requests"),
    QuotaCode("L-7212CCBC", "P", Market.SPOT, "All P4, P3 and P2 Spot Instance Requests"),
    # P5 shares the on-demand pool of P, but has a spot pool of its own.
    QuotaCode("L-C4BD4855", "P5", Market.SPOT, "All P5 Spot Instance Requests"),
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An answer that is not taken.

    Attributes:
        what: the type, its market and place.
        reason: why.
    """

    what: str
    reason: str


def facts_calls(region: str, types: Sequence[str]) -> tuple[ApiCall, ...]:
    """Returns the calls for the facts of instance types.

    By filter, not by name: one name that a region does not know would fail the whole call.
    """
    return tuple(
        ApiCall(
            "ec2",
            "describe_instance_types",
            region,
            {"Filters": [{"Name": "instance-type", "Values": list(names)}]},
            "instance types",
        )
        for names in _batches(types)
    )


def spot_calls(region: str, types: Sequence[str], now: datetime) -> tuple[ApiCall, ...]:
    """Returns the calls for the spot prices that hold now: history that starts now."""
    return tuple(
        ApiCall(
            "ec2",
            "describe_spot_price_history",
            region,
            {
                "Filters": [{"Name": "instance-type", "Values": list(names)}],
                "ProductDescriptions": list(_LINUX),
                "StartTime": now,
            },
            "spot prices",
        )
        for names in _batches(types)
    )


def on_demand_calls(region: str, types: Sequence[str]) -> tuple[ApiCall, ...]:
    """Returns the calls for on-demand prices, one per type: filters there take one value."""
    return tuple(
        ApiCall(
            "pricing",
            "get_products",
            PRICE_LIST_REGION,
            {
                "ServiceCode": "AmazonEC2",
                "FormatVersion": "aws_v1",
                "Filters": [
                    {"Type": "TERM_MATCH", "Field": name, "Value": value}
                    for name, value in {
                        "instanceType": kind,
                        "regionCode": region,
                        **_PRODUCT,
                    }.items()
                ],
            },
            f"on-demand price of {kind}",
        )
        for kind in types
    )


def quota_call(region: str, quota: QuotaCode, *, default: bool = False) -> ApiCall:
    """Returns the call for a quota: the account's own, or AWS's default."""
    return ApiCall(
        "service-quotas",
        "get_aws_default_service_quota" if default else "get_service_quota",
        region,
        {"ServiceCode": "ec2", "QuotaCode": quota.code},
        f"quota of {quota.market} {quota.pool}",
    )


def read_facts(pages: Iterable[Mapping[str, Any]], date: str) -> tuple[TypeRow, ...]:
    """Returns the instance types with one kind of NVIDIA GPU that we have a name for."""
    found: list[TypeRow] = []
    for page in pages:
        for entry in page.get("InstanceTypes", ()):
            gpus = entry.get("GpuInfo", {}).get("Gpus", ())
            vcpus = entry.get("VCpuInfo", {}).get("DefaultVCpus")
            if len(gpus) != 1 or not vcpus or not gpus[0].get("Count"):
                continue
            named = our_gpu(gpus[0].get("Name", ""), gpus[0].get("MemoryInfo", {}).get("SizeInMiB"))
            # A part of a GPU (g6f) says so here; its Count is 1 all the same.
            if named is None or gpus[0].get("GpuPartitionSize", 1.0) != 1.0:
                continue
            cards = entry.get("NetworkInfo", {}).get("NetworkCards", ())
            speeds = [card.get("BaselineBandwidthInGbps") for card in cards]
            found.append(
                TypeRow(
                    "aws",
                    entry["InstanceType"],
                    named[0],
                    int(gpus[0]["Count"]),
                    named[1],
                    int(vcpus),
                    f"EC2 DescribeInstanceTypes, {date[:10]}",
                    float(sum(speeds)) if speeds and all(speeds) else None,
                )
            )
    return tuple(found)


def read_spot(
    pages: Iterable[Mapping[str, Any]], region: str, gpus: Mapping[str, int], date: str
) -> tuple[tuple[Price, ...], tuple[Rejected, ...]]:
    """Returns the newest spot price of each type and zone, and what was not taken.

    The price's date is `date`, when it was asked: the answer's own is when that price began.
    """
    newest: dict[tuple[str, str], tuple[Any, str]] = {}
    for page in pages:
        for entry in page.get("SpotPriceHistory", ()):
            if entry.get("ProductDescription") not in _LINUX:
                continue
            key = (entry["InstanceType"], entry["AvailabilityZone"])
            if key not in newest or entry["Timestamp"] > newest[key][0]:
                newest[key] = (entry["Timestamp"], entry["SpotPrice"])
    prices: list[Price] = []
    rejected: list[Rejected] = []
    for (kind, zone), (_, text) in sorted(newest.items()):
        _take(prices, rejected, kind, Market.SPOT, region, zone, text, gpus, date)
    return tuple(prices), tuple(rejected)


def read_on_demand(
    pages: Iterable[Mapping[str, Any]], kind: str, region: str, gpus: Mapping[str, int], date: str
) -> tuple[tuple[Price, ...], tuple[Rejected, ...]]:
    """Returns the on-demand price of a type, or why there is none.

    The filters are checked again here: a price list also names Capacity Blocks, at 0.00, with all
    attributes but `marketoption` alike.
    """
    what = f"{kind} (on-demand, {region})"
    texts: set[str] = set()
    for page in pages:
        for item in page.get("PriceList", ()):
            product = json.loads(item) if isinstance(item, str) else item
            attributes = product.get("product", {}).get("attributes", {})
            wanted = {"instanceType": kind, "regionCode": region, **_PRODUCT}
            if any(attributes.get(name) != value for name, value in wanted.items()):
                continue
            if attributes.get("marketoption", "OnDemand") != "OnDemand":
                continue
            for term in product.get("terms", {}).get("OnDemand", {}).values():
                for dimension in term.get("priceDimensions", {}).values():
                    usd = dimension.get("pricePerUnit", {}).get("USD")
                    if dimension.get("unit") == "Hrs" and usd is not None:
                        texts.add(usd)
    if not texts:
        return (), (Rejected(what, "not in the price list"),)
    if len({float(text) for text in texts}) > 1:
        listed = ", ".join(sorted(texts))
        return (), (Rejected(what, f"the price list names several prices: {listed}"),)
    prices: list[Price] = []
    rejected: list[Rejected] = []
    _take(prices, rejected, kind, Market.ON_DEMAND, region, None, texts.pop(), gpus, date)
    return tuple(prices), tuple(rejected)


def read_quota(
    pages: Iterable[Mapping[str, Any]], region: str, quota: QuotaCode, date: str, *, default: bool
) -> QuotaRow | None:
    """Returns a quota; None where the answer holds none."""
    for page in pages:
        value = page.get("Quota", {}).get("Value")
        if isinstance(value, int | float) and value >= 0:
            note = ", AWS's default: the account has none of its own" if default else ""
            source = f"Service Quotas {quota.code} ({quota.title}){note}"
            return QuotaRow("aws", region, quota.pool, quota.market, int(value), date, source)
    return None


def _take(
    prices: list[Price],
    rejected: list[Rejected],
    kind: str,
    market: Market,
    region: str,
    zone: str | None,
    text: str,
    gpus: Mapping[str, int],
    date: str,
) -> None:
    what = f"{kind} ({market}, {zone or region})"
    if kind not in gpus:
        rejected.append(Rejected(what, "not known as a type with GPUs of ours"))
        return
    judged = judge_price(text, gpus[kind])
    if isinstance(judged, PriceReason):
        rejected.append(Rejected(what, f"{judged.value}: {text}"))
        return
    api = "EC2 DescribeSpotPriceHistory" if market is Market.SPOT else "AWS Price List"
    prices.append(Price("aws", kind, market, region, zone, judged, date, api))


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    unique = list(dict.fromkeys(names))
    return (unique[i : i + _FILTER_VALUES] for i in range(0, len(unique), _FILTER_VALUES))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
