"""The built-in catalog's tables, checked as data: `problems` must find nothing, and can."""

import csv
import importlib.util
import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import srifty
from srifty.catalog import (
    builtin_billing_rules,
    builtin_gpus,
    builtin_instance_types,
    builtin_prices,
    builtin_sources,
)
from srifty.core.hardware import InstanceType
from srifty.core.offers import Location, Market, Offer

DATA = Path(srifty.__file__).parent / "data"
ROOT = Path(__file__).parents[2]
TABLES = ("instance_types.csv", "prices.csv", "interruptions.csv", "billing.json")
FILES = (*TABLES, "sources.json", "gpus.json")
KEYS = {
    "instance_types.csv": ("name",),
    "prices.csv": ("instance_type", "market", "region", "zone"),
    "interruptions.csv": ("instance_type", "region"),
    "billing.json": ("provider", "since"),
}
DATE = re.compile(r"20\d\d(-[01]\d(-[0-3]\d)?)?")
LOCAL_ZONE = re.compile(r"-[a-z]{3}\d+-az\d")


def read(path: Path) -> list[dict]:
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def problems(folder: Path) -> list[str]:
    """Returns what is wrong with the catalog's tables in a folder, one line each."""
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    gpus = {gpu["name"]: gpu for gpu in read(folder / "gpus.json")}
    types = {row["name"]: row for row in read(folder / "instance_types.csv")}
    prices = read(folder / "prices.csv")
    found = [
        f"sources.json {key}: neither a date nor a note that says why"
        for key, source in sources.items()
        if not source["note"] and not source["date"]
    ]
    found += [
        f"sources.json {key}: {source['date']!r} is no date"
        for key, source in sources.items()
        if source["date"] and not DATE.fullmatch(source["date"])
    ]
    found += [
        f"sources.json {key}: no {field}"
        for key, source in sources.items()
        for field in ("what", "where")
        if not source[field]
    ]
    used: set[str] = set()
    for table in TABLES:
        seen: set[tuple[str, ...]] = set()
        for row in read(folder / table):
            name = tuple(row[column] for column in KEYS[table])
            if name in seen:
                found.append(f"{table} {name}: twice")
            seen.add(name)
            keys = row["source"].split(";")
            used.update(keys)
            if not row["source"]:
                found.append(f"{table} {name}: no source")
            elif missing := [key for key in keys if key not in sources]:
                found.append(f"{table} {name}: unknown source {missing}")
            elif "date" in row:
                dates = {sources[key]["date"] for key in keys}
                if (row["date"] or None) not in dates:
                    found.append(f"{table} {name}: not the date of its source")
    found += [f"sources.json {key}: unused" for key in sources.keys() - used]
    for name, row in types.items():
        found += [f"instance_types.csv {name}: {line}" for line in type_problems(row, gpus)]
    for row in prices:
        name = " ".join(row[column] for column in KEYS["prices.csv"])
        if row["instance_type"] not in types:
            found.append(f"prices.csv {name}: unknown type")
        elif types[row["instance_type"]]["cloud"] != row["cloud"]:
            found.append(f"prices.csv {name}: another cloud's type")
        if not (0 < float(row["usd_per_hour"]) < math.inf):
            found.append(f"prices.csv {name}: {row['usd_per_hour']} is no price")
        if LOCAL_ZONE.search(row["zone"]):
            found.append(f"prices.csv {name}: a local zone")
    zones: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for row in prices:
        group = (row["instance_type"], row["market"], row["region"])
        zones[group].append(bool(row["zone"]))
    found += [
        f"prices.csv {group}: a price of the region beside those of its zones"
        for group, zoned in zones.items()
        if len(set(zoned)) > 1
    ]
    for row in read(folder / "interruptions.csv"):
        low, high = float(row["bucket_low"]), float(row["bucket_high"] or 1)
        if row["instance_type"] not in types or not 0 <= low < high <= 1:
            found.append(f"interruptions.csv {row['instance_type']}: no bucket of a known type")
    return found


def type_problems(row: dict[str, str], gpus: dict[str, dict]) -> list[str]:
    """Returns what is wrong with a row of the instance types."""
    found: list[str] = []
    if row["gpu"] not in gpus:
        found.append(f"unknown GPU {row['gpu']}")
    elif gpus[row["gpu"]]["memory_bytes"] != int(row["gpu_memory_bytes"]):
        found.append("not the memory that gpus.json has")
    if int(row["vcpus"]) < 1 or int(row["gpus"]) < 1:
        found.append("no vCPUs or GPUs")
    rated, burst = float(row["rated_gbit_per_s"]), float(row["burst_gbit_per_s"] or "inf")
    if not 0 < rated < burst:
        found.append("the burst speed is not above the sustained one")
    if row["quota_pool"] != {"aws": row["name"][0].upper(), "gcp": ""}[row["cloud"]]:
        found.append(f"wrong quota pool {row['quota_pool']!r}")
    if row["cpu_vendor"] not in ("intel", "amd", ""):
        found.append(f"unknown CPU vendor {row['cpu_vendor']}")
    found += [
        f"{column} is {row[column]!r}"
        for column in ("efa", "placement_groups", "nvlink")
        if row[column] not in ("true", "false", "")
    ]
    if row["nvlink"] == "true" and int(row["gpus"]) == 1:
        found.append("NVLink with one GPU")
    return found


def test_the_tables_have_no_problems():
    assert problems(DATA) == []


@pytest.mark.parametrize(
    ("table", "broken", "complaint"),
    [
        ("prices.csv", lambda row: row | {"source": ""}, "no source"),
        ("prices.csv", lambda row: row | {"source": "hearsay"}, "unknown source"),
        ("prices.csv", lambda row: row | {"usd_per_hour": "0"}, "no price"),
        ("prices.csv", lambda row: row | {"usd_per_hour": "nan"}, "no price"),
        ("prices.csv", lambda row: row | {"usd_per_hour": "-1"}, "no price"),
        ("prices.csv", lambda row: row | {"date": "2020-01-01"}, "not the date of its source"),
        ("prices.csv", lambda row: row | {"instance_type": "x1.huge"}, "unknown type"),
        ("prices.csv", lambda row: row | {"cloud": "gcp"}, "another cloud's"),
        ("prices.csv", lambda row: row | {"zone": "usw2-lax1-az1"}, "a local zone"),
        ("instance_types.csv", lambda row: row | {"source": ""}, "no source"),
        ("instance_types.csv", lambda row: row | {"gpu": "T9"}, "unknown GPU"),
        ("instance_types.csv", lambda row: row | {"gpu_memory_bytes": "1"}, "memory"),
        ("instance_types.csv", lambda row: row | {"vcpus": "0"}, "no vCPUs"),
        ("instance_types.csv", lambda row: row | {"burst_gbit_per_s": "0.1"}, "burst"),
        ("instance_types.csv", lambda row: row | {"quota_pool": ""}, "quota pool"),
        ("instance_types.csv", lambda row: row | {"nvlink": "yes"}, "nvlink is"),
        ("interruptions.csv", lambda row: row | {"bucket_low": "0.9"}, "no bucket"),
    ],
)
def test_a_broken_row_is_found(
    tmp_path: Path, table: str, broken: Callable[[dict], dict], complaint: str
):
    copy(tmp_path)
    first, *others = read(tmp_path / table)
    write(tmp_path / table, [broken(first), *others])
    assert any(complaint in line and line.startswith(table) for line in problems(tmp_path))


@pytest.mark.parametrize("table", ["instance_types.csv", "prices.csv", "interruptions.csv"])
def test_a_repeated_row_is_found(tmp_path: Path, table: str):
    copy(tmp_path)
    rows = read(tmp_path / table)
    write(tmp_path / table, [*rows, rows[0]])
    assert any(line.startswith(table) and line.endswith(": twice") for line in problems(tmp_path))


def test_a_source_without_date_and_reason_is_found(tmp_path: Path):
    copy(tmp_path)
    sources = json.loads((DATA / "sources.json").read_text(encoding="utf-8"))
    sources["skypilot-v8"]["note"] = ""
    (tmp_path / "sources.json").write_text(json.dumps(sources))
    assert problems(tmp_path) == [
        "sources.json skypilot-v8: neither a date nor a note that says why"
    ]


def test_a_median_of_the_region_beside_its_zones_is_found(tmp_path: Path):
    copy(tmp_path)
    rows = read(tmp_path / "prices.csv")
    spot = next(row for row in rows if row["zone"])
    write(tmp_path / "prices.csv", [*rows, spot | {"zone": ""}])
    assert any("beside those of its zones" in line for line in problems(tmp_path))


def test_every_builtin_value_passes_its_own_checks():
    types, gpus = builtin_instance_types(), builtin_gpus()
    assert all(kind.gpu in gpus for kind in types.values())
    for price in builtin_prices():
        offer = Offer(
            instance_type=types[price.instance_type],
            market=price.market,
            location=Location(price.region, price.zone),
            usd_per_hour=price.usd_per_hour,
            quota=1,
            price_source=price.source,
            price_date=price.date,
        )
        assert offer.price_source
    assert len(types) == len(read(DATA / "instance_types.csv"))
    assert len(builtin_prices()) == len(read(DATA / "prices.csv"))
    assert all(source.where for source in builtin_sources().values())


def test_the_columns_of_prices_stand_where_the_reader_expects_them():
    first = read(DATA / "prices.csv")[0]
    assert list(first) == [
        "cloud",
        "instance_type",
        "market",
        "region",
        "zone",
        "usd_per_hour",
        "date",
        "source",
    ]


# Figures looked up by hand in the sources, so that a slip of the generator shows.
@pytest.mark.parametrize(
    ("name", "gpus", "gpu", "vcpus", "rated", "burst", "pool"),
    [
        ("g3.8xlarge", 2, "M60", 32, 10, None, "G"),
        ("g4dn.xlarge", 1, "T4", 4, 5, 25, "G"),
        ("g4dn.12xlarge", 4, "T4", 48, 50, None, "G"),
        ("g5.4xlarge", 1, "A10G", 16, 10, 25, "G"),
        ("p3.2xlarge", 1, "V100", 8, 2.5, 10, "P"),
        ("p3.16xlarge", 8, "V100", 64, 25, None, "P"),
        ("p3dn.24xlarge", 8, "V100-32GB", 96, 100, None, "P"),
        ("p5.48xlarge", 8, "H100", 192, 3200, None, "P"),
        ("a2-ultragpu-8g", 8, "A100-80GB", 96, 100, None, None),
        ("n1-standard-8+1xV100", 1, "V100", 8, 16, None, None),
    ],
)
def test_well_known_types(name, gpus, gpu, vcpus, rated, burst, pool):
    kind: InstanceType = builtin_instance_types()[name]
    assert (kind.gpus, kind.gpu, kind.vcpus) == (gpus, gpu, vcpus)
    assert (kind.rated_gbit_per_s, kind.burst_gbit_per_s) == (rated, burst)
    assert kind.quota_pool == pool


def test_each_ec2_type_has_an_on_demand_price_in_us_east_1():
    priced = {
        price.instance_type
        for price in builtin_prices()
        if price.region == "us-east-1" and price.market is Market.ON_DEMAND
    }
    assert priced == {
        kind.name for kind in builtin_instance_types().values() if kind.cloud == "aws"
    }


def test_spot_is_never_dearer_than_on_demand_but_may_cost_the_same():
    # Equal up to the sources' rounding: eleven rows, probably of scarce types.
    on_demand = {
        (price.instance_type, price.region): price.usd_per_hour
        for price in builtin_prices()
        if price.market is Market.ON_DEMAND
    }
    equal = [
        price
        for price in builtin_prices()
        if price.market is Market.SPOT
        and price.usd_per_hour >= on_demand[price.instance_type, price.region] - 1e-4
    ]
    assert len(equal) == 11
    assert {price.instance_type for price in equal} == {
        "g5.12xlarge",
        "g5.24xlarge",
        "g5.48xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
        "p5.4xlarge",
    }
    assert all(
        price.usd_per_hour <= on_demand[price.instance_type, price.region] + 1e-4 for price in equal
    )


def test_billing_rules_are_one_a_provider_with_the_day_they_began():
    rules = {rule.provider: rule for rule in builtin_billing_rules()}
    assert set(rules) == {"aws", "gcp", "own"}
    assert (rules["aws"].since, rules["gcp"].since) == ("2017-10-02", "2017-09-26")
    assert (rules["aws"].granularity_s, rules["aws"].minimum_s) == (1, 60)
    assert rules["aws"].spot_free_s == 3600
    assert rules["aws"].cross_zone_usd_per_gb == 0.02
    assert rules["own"].minimum_s == 0


@pytest.mark.skipif(
    not (ROOT / "tools").is_dir(), reason="the page's writer is in the repository, not the package"
)
def test_the_catalog_page_is_what_the_tables_say():
    spec = importlib.util.spec_from_file_location(
        "catalog_page", ROOT / "tools" / "catalog_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "catalog.md").read_text(encoding="utf-8")
    assert module.page(DATA) == page, "run python tools/catalog_tables.py"


def copy(folder: Path) -> None:
    for name in FILES:
        shutil.copy(DATA / name, folder / name)


def write(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
