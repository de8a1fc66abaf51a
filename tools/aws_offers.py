"""Builds the built-in table of AWS instance types and prices from the public catalog snapshots."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median
from typing import NamedTuple

GIB = 2**30
REGIONS = ("us-east-1", "us-west-2")

_KARPENTER = "aws/karpenter-provider-aws @1d927085dd (generated 2026-07-20)"
_SKYPILOT = "skypilot-org/skypilot-catalog"
_NEW_COMMIT = "00148f2af3"
_OLD_COMMIT = "2d7ca8c967"
_NEW_DATE = "snapshot of 2026, exact date not stated"
_OLD_DATE = "older snapshot than that of g4dn and p3, date not stated, so not comparable with them"


class Shape(NamedTuple):
    """What the catalog snapshots do not say about an instance type."""

    gpu: str
    gpus: int
    gpu_memory_gib: int
    vcpus: int
    nvlink: bool


SHAPES = {
    "g4dn.xlarge": Shape("T4", 1, 16, 4, False),
    "g4dn.2xlarge": Shape("T4", 1, 16, 8, False),
    "g4dn.4xlarge": Shape("T4", 1, 16, 16, False),
    "g4dn.8xlarge": Shape("T4", 1, 16, 32, False),
    "g4dn.12xlarge": Shape("T4", 4, 16, 48, False),
    "g4dn.16xlarge": Shape("T4", 1, 16, 64, False),
    "g4dn.metal": Shape("T4", 8, 16, 96, False),
    "p3.2xlarge": Shape("V100", 1, 16, 8, False),
    "p3.8xlarge": Shape("V100", 4, 16, 32, True),
    "p3.16xlarge": Shape("V100", 8, 16, 64, True),
    "p3dn.24xlarge": Shape("V100-32GB", 8, 32, 96, True),
    "g3s.xlarge": Shape("M60", 1, 8, 4, False),
    "g3.4xlarge": Shape("M60", 1, 8, 16, False),
    "g3.8xlarge": Shape("M60", 2, 8, 32, False),
    "g3.16xlarge": Shape("M60", 4, 8, 64, False),
}

# karpenter's table has no g3s.xlarge and AWS rates it "up to 10 Gbit/s" only.
_G3S_RATED_GBIT_PER_S = 1.25


def instance_types(data: Path) -> list[dict[str, object]]:
    """Returns the instance types as rows of the offers file, checked against the snapshots.

    Args:
        data: the folder of public measurements.

    Raises:
        ValueError: a snapshot contradicts `SHAPES`.
    """
    with (data / "catalog" / "aws_gpu_instances.csv").open(newline="") as file:
        listed = {row["instance_type"]: row for row in csv.DictReader(file)}
    by_zone = _zone_rows(data)
    rows: list[dict[str, object]] = []
    for name, shape in SHAPES.items():
        zone = next(row for row in by_zone if row["instance_type"] == name)
        if (float(zone["gpu_count"]), float(zone["vcpus"])) != (shape.gpus, shape.vcpus):
            raise ValueError(f"{name}: the catalog snapshot has other GPU or vCPU counts")
        if name == "g3s.xlarge":
            rated = _G3S_RATED_GBIT_PER_S
            rated_source = (
                "rated network ASSUMED: AWS states only up to 10 Gbit/s; g3.4xlarge's 5 Gbit/s "
                "taken by vCPU share"
            )
        else:
            rated = float(listed[name]["baseline_gbps_karpenter"])
            rated_source = f"rated network: {_KARPENTER}, sustained baseline"
        if name.startswith("g3"):
            shape_source = (
                f"GPUs and vCPUs: {_SKYPILOT} v4 @{_OLD_COMMIT}; 8 GiB per GPU: AWS's G3 page"
            )
        else:
            shape_source = f"GPUs, GPU memory and vCPUs: {_KARPENTER}"
            memory_mib = float(listed[name]["gpu_mem_mib_each"])
            if memory_mib != shape.gpu_memory_gib * 1024:
                raise ValueError(f"{name}: the catalog snapshot has {memory_mib} MiB per GPU")
        rows.append(
            {
                "name": name,
                "cloud": "aws",
                "gpu": shape.gpu,
                "gpus": shape.gpus,
                "gpu_memory_bytes": shape.gpu_memory_gib * GIB,
                "vcpus": shape.vcpus,
                "cpu_vendor": "intel",
                "rated_gbit_per_s": rated,
                "nvlink": shape.nvlink,
                "source": f"{shape_source}; {rated_source}; CPU vendor and NVLink: "
                "AWS's instance pages",
            }
        )
    return rows


def prices(data: Path) -> list[dict[str, object]]:
    """Returns one on-demand and one spot price per instance type and region.

    Spot is the median over the region's ordinary zones; local zones are left out.

    Args:
        data: the folder of public measurements.

    Raises:
        ValueError: the zones of a region disagree about the on-demand price.
    """
    by_zone = _zone_rows(data)
    rows: list[dict[str, object]] = []
    for name in SHAPES:
        old = name.startswith("g3")
        version, commit = ("v4", _OLD_COMMIT) if old else ("v8", _NEW_COMMIT)
        when = _OLD_DATE if old else _NEW_DATE
        snapshot = f"{_SKYPILOT} {version} @{commit} ({when})"
        for region in REGIONS:
            zones = [
                row
                for row in by_zone
                if row["instance_type"] == name
                and row["region"] == region
                and "lax1" not in row["zone_id"]
                and "atl2" not in row["zone_id"]
            ]
            on_demand = {float(row["ondemand_usd_h"]) for row in zones}
            if len(on_demand) != 1:
                raise ValueError(f"{name} in {region}: on-demand prices differ: {on_demand}")
            spot = [float(row["spot_usd_h"]) for row in zones if row["spot_usd_h"]]
            shared = {"region": region, "zone": None}
            date = None if old else "2026"
            rows.append(
                {"instance_type": name, "market": "on-demand"}
                | shared
                | {"usd_per_hour": on_demand.pop(), "source": snapshot, "date": date}
            )
            rows.append(
                {"instance_type": name, "market": "spot"}
                | shared
                | {
                    "usd_per_hour": round(median(spot), 6),
                    "source": f"median over {len(spot)} zones (local zones left out), {snapshot}",
                    "date": date,
                }
            )
    return rows


def _zone_rows(data: Path) -> list[dict[str, str]]:
    with (data / "catalog" / "aws_gpu_prices_by_zone.csv").open(newline="") as file:
        return list(csv.DictReader(file))
