"""Answers in the recorded shape of AWS's APIs, behind the client's interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from srifty.catalog.aws import AbstractAws, CallError
from srifty.catalog.aws_calls import ApiCall
from srifty.errors import CloudRefused

Answer = Callable[[ApiCall], Iterator[Mapping[str, Any]]]


def product(
    kind: str = "g4dn.xlarge",
    usd: str = "0.5260000000",
    *,
    market: str | None = "OnDemand",
    as_text: bool = True,
    **attributes: str,
) -> Any:
    """Returns an item of a price list, cut to the attributes that tell products apart."""
    told: dict[str, str] = {
        "instanceType": kind,
        "regionCode": "us-east-1",
        "location": "US East (N. Virginia)",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "operation": "RunInstances",
        "usagetype": f"BoxUsage:{kind}",
        **({"marketoption": market} if market else {}),
        **attributes,
    }
    rate = "SKU.JRTCKXETXF.6YS6EN2CT7"
    item = {
        "product": {"productFamily": "Compute Instance", "attributes": told, "sku": "SKU"},
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                "SKU.JRTCKXETXF": {
                    "priceDimensions": {
                        rate: {
                            "unit": "Hrs",
                            "endRange": "Inf",
                            "description": f"${usd} per On Demand Linux {kind} Instance Hour",
                            "appliesTo": [],
                            "rateCode": rate,
                            "beginRange": "0",
                            "pricePerUnit": {"USD": usd},
                        }
                    },
                    "sku": "SKU",
                    "effectiveDate": "2026-07-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20260719162807",
    }
    return json.dumps(item) if as_text else item


def spot(kind: str, zone: str, usd: str, hour: int = 1, system: str = "Linux/UNIX") -> Any:
    return {
        "AvailabilityZone": zone,
        "InstanceType": kind,
        "ProductDescription": system,
        "SpotPrice": usd,
        "Timestamp": datetime(2026, 7, 20, hour, tzinfo=UTC),
    }


def facts(kind: str, gpu: str, gpus: int, mib: int, vcpus: int, gbit: float | None = 5.0) -> Any:
    card = {"NetworkCardIndex": 0, "NetworkPerformance": "Up to 25 Gigabit"}
    if gbit is not None:
        card |= {"BaselineBandwidthInGbps": gbit, "PeakBandwidthInGbps": 25.0}
    return {
        "InstanceType": kind,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "GpuInfo": {
            "Gpus": [
                {
                    "Name": gpu,
                    "Manufacturer": "NVIDIA",
                    "Count": gpus,
                    "MemoryInfo": {"SizeInMiB": mib},
                }
            ],
            "TotalGpuMemoryInMiB": mib * gpus,
        },
        "NetworkInfo": {"NetworkCards": [card]},
    }


class FakeAws(AbstractAws):
    """Answers by operation; an operation without an answer is denied."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.calls: list[ApiCall] = []

    def check_region(self, region: str) -> None:
        if region == "us-mars-1":
            raise CloudRefused("AWS has no region 'us-mars-1'")

    def pages(self, call: ApiCall) -> Iterator[Mapping[str, Any]]:
        self.calls.append(call)
        if call.operation not in self.answers:
            raise CallError("AccessDeniedException", "not authorized", denied=True)
        yield from self.answers[call.operation](call)


def of_pages(*pages: Mapping[str, Any]) -> Answer:
    return lambda _call: iter(pages)


def failing(code: str, *before: Mapping[str, Any]) -> Answer:
    def answer(_call: ApiCall) -> Iterator[Mapping[str, Any]]:
        yield from before
        raise CallError(code, "Rate exceeded", denied=False)

    return answer


def price_list(prices: Mapping[str, str]) -> Answer:
    """Answers get_products as the filters ask, one page per product."""

    def answer(call: ApiCall) -> Iterator[Mapping[str, Any]]:
        wanted = {f["Field"]: f["Value"] for f in call.request["Filters"]}
        kind = wanted["instanceType"]
        if kind in prices:
            yield {"FormatVersion": "aws_v1", "PriceList": []}
            yield {"FormatVersion": "aws_v1", "PriceList": [product(kind, prices[kind])]}

    return answer


def quota_values(own: Mapping[str, float], default: float = 0.0) -> dict[str, Answer]:
    """Answers the two calls of Service Quotas."""

    def get(call: ApiCall) -> Iterator[Mapping[str, Any]]:
        code = call.request["QuotaCode"]
        if code not in own:
            raise CallError("NoSuchResourceException", "no such quota", denied=False)
        yield {"Quota": {"ServiceCode": "ec2", "QuotaCode": code, "Value": own[code]}}

    def get_default(call: ApiCall) -> Iterator[Mapping[str, Any]]:
        yield {"Quota": {"QuotaCode": call.request["QuotaCode"], "Value": default}}

    return {"get_service_quota": get, "get_aws_default_service_quota": get_default}
