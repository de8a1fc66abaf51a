"""Builds the built-in tables of instance types, prices and interruptions from public snapshots.

Run in the repository root, with the package importable:

    python tools/catalog_tables.py --data ../shared/data

It writes `instance_types.csv`, `prices.csv` and `interruptions.csv` under `src/srifty/data` and
`docs/catalog.md`; `sources.json`, `billing.json` and `gpus.json` there are written by hand. The
same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import catalog_page

TARGET = Path("src/srifty/data")
PAGE = Path("docs/catalog.md")
MIB = 2**20

INSTANCE_COLUMNS = (
    "cloud",
    "name",
    "gpu",
    "gpus",
    "gpu_memory_bytes",
    "vcpus",
    "cpu_vendor",
    "rated_gbit_per_s",
    "burst_gbit_per_s",
    "efa",
    "placement_groups",
    "nvlink",
    "quota_pool",
    "source",
)
PRICE_COLUMNS = (
    "cloud",
    "instance_type",
    "market",
    "region",
    "zone",
    "usd_per_hour",
    "date",
    "source",
)
INTERRUPTION_COLUMNS = (
    "cloud",
    "instance_type",
    "region",
    "bucket_low",
    "bucket_high",
    "date",
    "source",
)

# EC2's families in the order of the table, with their CPU's vendor.
CPU_VENDORS = {
    "g3s": "intel",
    "g3": "intel",
    "g4dn": "intel",
    "g5": "amd",
    "g6": "amd",
    "g6e": "amd",
    "p3": "intel",
    "p3dn": "intel",
    "p4d": "intel",
    "p4de": "intel",
    "p5": "amd",
}
GPU_NAMES = {
    ("T4", 16384): "T4",
    ("A10G", 22888): "A10G",
    ("L4", 22888): "L4",
    ("L40S", 45776): "L40S",
    ("V100", 16384): "V100",
    ("V100", 32768): "V100-32GB",
    ("A100", 40960): "A100-40GB",
    ("A100", 81920): "A100-80GB",
    ("H100", 81920): "H100",
}
# Neither snapshot has g3's burst speeds; EC2's Instance Types Guide does, but for g3s.
G3_BURST_GBIT_PER_S = {"g3s.xlarge": 10.0, "g3.4xlarge": 10.0}
G3S_RATED_GBIT_PER_S = 1.25
# The guide has EFA for p4de, the API's answers do not list the type.
EFA_BY_GUIDE = {
    "p4de.24xlarge": True,
    "g3.4xlarge": False,
    "g3.8xlarge": False,
    "g3.16xlarge": False,
}
LOCAL_ZONES = ("lax1", "atl2")
INTERRUPTION_SNAPSHOT = "2025-07"
INTERRUPTION_REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "ap-northeast-1")
# By the advisor's bucket number: lowest and highest fraction taken back in a month.
BUCKETS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.15), (0.15, 0.2), (0.2, None))

# GPU, GPUs and Gbit/s by Google's documentation; vCPUs are checked against the price list.
GCP_MACHINES = {
    "a2-highgpu-1g": ("A100-40GB", 1, 12, 24),
    "a2-highgpu-2g": ("A100-40GB", 2, 24, 32),
    "a2-highgpu-4g": ("A100-40GB", 4, 48, 50),
    "a2-highgpu-8g": ("A100-40GB", 8, 96, 100),
    "a2-megagpu-16g": ("A100-40GB", 16, 96, 100),
    "a2-ultragpu-1g": ("A100-80GB", 1, 12, 24),
    "a2-ultragpu-2g": ("A100-80GB", 2, 24, 32),
    "a2-ultragpu-4g": ("A100-80GB", 4, 48, 50),
    "a2-ultragpu-8g": ("A100-80GB", 8, 96, 100),
    "g2-standard-4": ("L4", 1, 4, 10),
    "g2-standard-8": ("L4", 1, 8, 16),
    "g2-standard-12": ("L4", 1, 12, 16),
    "g2-standard-16": ("L4", 1, 16, 32),
    "g2-standard-24": ("L4", 2, 24, 32),
    "g2-standard-32": ("L4", 1, 32, 32),
    "g2-standard-48": ("L4", 4, 48, 50),
    "g2-standard-96": ("L4", 8, 96, 100),
}
GCP_N1 = (
    ("n1-standard-4", 1, "T4"),
    ("n1-standard-8", 1, "T4"),
    ("n1-standard-16", 2, "T4"),
    ("n1-standard-32", 4, "T4"),
    ("n1-standard-4", 1, "V100"),
    ("n1-standard-8", 1, "V100"),
    ("n1-standard-16", 2, "V100"),
    ("n1-standard-32", 4, "V100"),
    ("n1-standard-32", 8, "V100"),
    ("n1-standard-96", 8, "V100"),
)

Row = dict[str, object]


def aws_instance_types(data: Path, memory_bytes: Mapping[str, int]) -> list[Row]:
    """Returns EC2's types as rows of the table.

    Args:
        data: the folder of public measurements.
        memory_bytes: memory of a GPU by its name.

    Raises:
        ValueError: the snapshots contradict each other about GPUs or vCPUs.
    """
    listed = {row["instance_type"]: row for row in _read(data, "aws_gpu_instances.csv")}
    zones = {row["instance_type"]: row for row in _read(data, "aws_gpu_prices_by_zone.csv")}
    order = list(CPU_VENDORS)
    names = [name for name in listed.keys() | zones.keys() if _family(name) in CPU_VENDORS]
    rows: list[Row] = []
    for name in names:
        sold = zones[name]
        gpus, vcpus = int(float(sold["gpu_count"])), int(float(sold["vcpus"]))
        family = _family(name)
        if family in ("g3", "g3s"):
            gpu, rated = "M60", G3S_RATED_GBIT_PER_S
            burst, efa = G3_BURST_GBIT_PER_S.get(name), EFA_BY_GUIDE.get(name)
            sources = ["skypilot-v4", "gpu-data-sheets", "ec2-types-guide-2024-07", "ec2-pages"]
            if name == "g3s.xlarge":
                sources.append("g3s-assumed")
            else:
                rated = float(listed[name]["baseline_gbps_karpenter"])
                sources.insert(0, "karpenter-2026-07")
        else:
            known = listed[name]
            if (int(known["gpu_count"]), int(known["vcpus"])) != (gpus, vcpus):
                raise ValueError(f"{name}: the snapshots have different GPU or vCPU counts")
            gpu = _gpu_name(known, memory_bytes)
            rated = float(known["baseline_gbps_karpenter"])
            promised = known["network_performance_label"].startswith("Up to")
            burst = float(known["peak_gbps_ec2api"]) if promised else None
            if burst is not None and burst <= rated:
                burst = None
            efa = known["efa"] == "True" if known["efa"] else EFA_BY_GUIDE.get(name)
            sources = ["karpenter-2026-07", "gpu-data-sheets", "ec2-types-guide-2024-07"]
            if known["efa"]:
                sources.insert(1, "ec2-api-2025-03")
            sources += ["ec2-placement", "ec2-pages"]
        rows.append(
            {
                "cloud": "aws",
                "name": name,
                "gpu": gpu,
                "gpus": gpus,
                "gpu_memory_bytes": memory_bytes[gpu],
                "vcpus": vcpus,
                "cpu_vendor": CPU_VENDORS[family],
                "rated_gbit_per_s": rated,
                "burst_gbit_per_s": burst,
                "efa": efa,
                "placement_groups": True if family not in ("g3", "g3s") else None,
                "nvlink": family.startswith("p") and gpus > 1,
                "quota_pool": name[0].upper(),
                "source": ";".join(sources),
            }
        )
    return sorted(rows, key=lambda row: (order.index(_family(str(row["name"]))), row["vcpus"]))


def gcp_instance_types(data: Path, memory_bytes: Mapping[str, int]) -> list[Row]:
    """Returns Google's types as rows of the table.

    Args:
        data: the folder of public measurements.
        memory_bytes: memory of a GPU by its name.

    Raises:
        ValueError: the price list has other vCPUs than the documentation.
    """
    priced = {row["machine_type"]: row for row in _read(data, "gcp_gpu_machine_prices.csv")}
    egress = {row["machine_type"]: row for row in _read(data, "gcp_machine_egress.csv")}
    rows: list[Row] = []
    for machine, gpus, gpu in GCP_N1:
        rows.append(
            _gcp_row(
                f"{machine}+{gpus}x{gpu}",
                (gpu, gpus, int(egress[machine]["vcpus"])),
                float(egress[machine]["network_egress_gbps"]),
                memory_bytes,
                placement=None,
                source="gcp-egress-2024-09;gcp-n1-gpus;gpu-data-sheets;gcp-machines-2026-04;gcp-pages",
            )
        )
    for name, (gpu, gpus, vcpus, gbit_per_s) in GCP_MACHINES.items():
        if int(priced[name]["vcpus"]) != vcpus:
            raise ValueError(f"{name}: {priced[name]['vcpus']} vCPUs in the price list")
        rows.append(
            _gcp_row(
                name,
                (gpu, gpus, vcpus),
                float(gbit_per_s),
                memory_bytes,
                placement=True,
                source="gcp-machines-2026-04;gpu-data-sheets;gcp-pages",
            )
        )
    return rows


def aws_prices(data: Path) -> list[Row]:
    """Returns EC2's prices: on-demand by region, spot by zone, without the local zones.

    Args:
        data: the folder of public measurements.

    Raises:
        ValueError: the zones of a region disagree about the on-demand price, or the two snapshots
            of us-east-1 do.
    """
    listed = {
        row["instance_type"]: float(row["ondemand_usd_h_us_east_1"])
        for row in _read(data, "aws_gpu_instances.csv")
        if row["ondemand_usd_h_us_east_1"]
    }
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _read(data, "aws_gpu_prices_by_zone.csv"):
        ordinary = not any(local in row["zone_id"] for local in LOCAL_ZONES)
        if ordinary and _family(row["instance_type"]) in CPU_VENDORS:
            groups.setdefault((row["instance_type"], row["region"]), []).append(row)
    rows: list[Row] = []
    for (name, region), zones in groups.items():
        on_demand = {float(zone["ondemand_usd_h"]) for zone in zones}
        if len(on_demand) != 1:
            raise ValueError(f"{name} in {region}: on-demand prices differ: {on_demand}")
        usd = on_demand.pop()
        snapshot = "skypilot-v4" if name.startswith("g3") else "skypilot-v8"
        dated = region == "us-east-1" and name in listed
        if dated and listed[name] != usd:
            raise ValueError(f"{name}: {usd} and {listed[name]} USD on demand in us-east-1")
        source, date = ("karpenter-2026-07", "2026-07-20") if dated else (snapshot, "")
        rows.append(_price("aws", name, "on-demand", region, "", usd, date, source))
        rows += [
            _price(
                "aws",
                name,
                "spot",
                region,
                zone["zone_id"],
                float(zone["spot_usd_h"]),
                "",
                snapshot,
            )
            for zone in zones
            if zone["spot_usd_h"]
        ]
    return rows


def gcp_prices(data: Path) -> list[Row]:
    """Returns Google's prices, on-demand and spot by region.

    Args:
        data: the folder of public measurements.
    """
    source, date = "gcp-prices-2026-07", "2026-07-30"
    return [
        _price("gcp", row["machine_type"], market, row["region"], "", usd, date, source)
        for row in _read(data, "gcp_gpu_machine_prices.csv")
        for market, usd in (
            ("on-demand", float(row["ondemand_usd_h"])),
            ("spot", float(row["spot_usd_h"])),
        )
    ]


def aws_interruptions(data: Path) -> list[Row]:
    """Returns how often EC2 takes spot VMs back, as the advisor's bucket.

    Args:
        data: the folder of public measurements.
    """
    rows: list[Row] = []
    for row in _read(data, "aws_spot_advisor.csv"):
        if (
            row["snapshot"] == INTERRUPTION_SNAPSHOT
            and row["region"] in INTERRUPTION_REGIONS
            and _family(row["instance_type"]) in CPU_VENDORS
        ):
            low, high = BUCKETS[int(row["interruption_bucket"])]
            rows.append(
                {
                    "cloud": "aws",
                    "instance_type": row["instance_type"],
                    "region": row["region"],
                    "bucket_low": low,
                    "bucket_high": high,
                    "date": INTERRUPTION_SNAPSHOT,
                    "source": "spot-advisor-2025-07",
                }
            )
    return rows


def main() -> None:
    """Writes the tables and the page and prints a summary."""
    parser = argparse.ArgumentParser(description="Regenerates the built-in catalog.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data: Path = parser.parse_args().data
    gpus = json.loads((TARGET / "gpus.json").read_text(encoding="utf-8"))
    memory_bytes = {gpu["name"]: gpu["memory_bytes"] for gpu in gpus}
    types = aws_instance_types(data, memory_bytes) + gcp_instance_types(data, memory_bytes)
    places = {str(row["name"]): number for number, row in enumerate(types)}
    for name, columns, rows in (
        ("instance_types.csv", INSTANCE_COLUMNS, types),
        ("prices.csv", PRICE_COLUMNS, aws_prices(data) + gcp_prices(data)),
        ("interruptions.csv", INTERRUPTION_COLUMNS, aws_interruptions(data)),
    ):
        if name != "instance_types.csv":
            rows = sorted(
                rows,
                key=lambda row: (
                    places[str(row["instance_type"])],
                    row["region"],
                    row.get("market", ""),
                    row.get("zone", ""),
                ),
            )
        (TARGET / name).write_text(_csv(columns, rows), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(rows)} rows\n")
    PAGE.write_text(catalog_page.page(TARGET), encoding="utf-8")


def _gcp_row(
    name: str,
    shape: tuple[str, int, int],
    gbit_per_s: float,
    memory_bytes: Mapping[str, int],
    *,
    placement: bool | None,
    source: str,
) -> Row:
    gpu, gpus, vcpus = shape
    return {
        "cloud": "gcp",
        "name": name,
        "gpu": gpu,
        "gpus": gpus,
        "gpu_memory_bytes": memory_bytes[gpu],
        "vcpus": vcpus,
        "cpu_vendor": "intel",
        "rated_gbit_per_s": gbit_per_s,
        "burst_gbit_per_s": None,
        "efa": False,
        "placement_groups": placement,
        "nvlink": gpus > 1 and gpu not in ("T4", "L4"),
        "quota_pool": None,
        "source": source,
    }


def _gpu_name(row: Mapping[str, str], memory_bytes: Mapping[str, int]) -> str:
    """Returns our name of a listed GPU; EC2 reports up to 7 % less memory than the data sheet."""
    listed_mib = int(row["gpu_mem_mib_each"])
    name = GPU_NAMES[row["gpu"], listed_mib]
    if not 0.93 <= listed_mib * MIB / memory_bytes[name] <= 1:
        raise ValueError(f"{row['instance_type']}: {listed_mib} MiB do not fit a {name}")
    return name


def _price(
    cloud: str,
    instance_type: str,
    market: str,
    region: str,
    zone: str,
    usd_per_hour: float,
    date: str,
    source: str,
) -> Row:
    values = (cloud, instance_type, market, region, zone, round(usd_per_hour, 6), date, source)
    return dict(zip(PRICE_COLUMNS, values, strict=True))


def _family(name: str) -> str:
    return name.split(".", 1)[0]


def _read(data: Path, name: str) -> list[dict[str, str]]:
    with (data / "catalog" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
