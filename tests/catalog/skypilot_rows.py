"""Rows in the shape of SkyPilot's catalog, mutations of them, and what a right import may say.

The figures are made up in the right size; the shape (float counts, GpuInfo as a Python literal,
zone ids, one row per type and zone) is that of catalogs/v8/aws/vms.csv.
"""

from __future__ import annotations

import csv
import io
import random
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from srifty.catalog.price import Price
from srifty.catalog.skypilot import SkypilotImport, import_skypilot
from srifty.core.hardware import InstanceType
from srifty.core.offers import Market
from srifty.units import GIB

COLUMNS = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo",
    "Price", "SpotPrice", "Region", "AvailabilityZone", "Arch",
)  # fmt: skip
HEADER = ",".join(COLUMNS)
DATE = "2026-07-20T00:00:00+00:00"

# Independent of the importer's table: (cloud's name, MiB of one GPU) → our name.
OURS = {
    ("T4", 16384): "T4",
    ("V100", 16384): "V100",
    ("V100-32GB", 32768): "V100-32GB",
    ("A100", 40960): "A100-40GB",
    ("A100-80GB", 81920): "A100-80GB",
    ("H100", 81920): "H100",
    ("A10G", 22888): "A10G",
    ("L4", 22888): "L4",
    ("L40S", 45776): "L40S",
    ("M60", 8192): "M60",
    ("K80", 12288): "K80",
}

KNOWN = {
    "p3.8xlarge": InstanceType("p3.8xlarge", "aws", "V100", 4, 16 * GIB, 32, 10.0),
    "g4dn.xlarge": InstanceType("g4dn.xlarge", "aws", "T4", 1, 16 * GIB, 4, 5.0),
}


def info(name: str, count: int | str, mib: int) -> str:
    return (
        f"{{'Gpus': [{{'Name': '{name}', 'Manufacturer': 'NVIDIA', 'Count': {count}, "
        f"'MemoryInfo': {{'SizeInMiB': {mib}}}}}], 'TotalGpuMemoryInMiB': {mib}}}"
    )


def cells(
    kind: str,
    gpu: str,
    gpus: int,
    vcpus: int,
    mib: int,
    price: str,
    spot: str,
    zone: str = "use1-az1",
    region: str = "us-east-1",
) -> list[str]:
    return [
        kind, gpu, f"{gpus}.0", f"{vcpus}.0", "61.0", info(gpu, gpus, mib), price, spot, region,
        zone, "x86_64",
    ]  # fmt: skip


BASES = (
    cells("g4dn.xlarge", "T4", 1, 4, 16384, "0.526", "0.203900"),
    cells("p3.8xlarge", "V100", 4, 32, 16384, "12.24", "1.459900"),
    cells("p3dn.24xlarge", "V100-32GB", 8, 96, 32768, "31.212", "4.1"),
    cells("p4d.24xlarge", "A100", 8, 96, 40960, "21.96", "9.1", "usw2-az2", "us-west-2"),
    cells("p4de.24xlarge", "A100-80GB", 8, 96, 81920, "27.45", "12.0"),
    cells("p5.48xlarge", "H100", 8, 192, 81920, "55.04", "21.3", "apne1-az4", "ap-northeast-1"),
    cells("g5.12xlarge", "A10G", 4, 48, 22888, "5.672", "2.5"),
    cells("g6.xlarge", "L4", 1, 4, 22888, "0.8048", "0.31"),
    cells("g6e.48xlarge", "L40S", 8, 192, 45776, "30.13118", "9.2", "us-east-1a"),
    cells("g3.8xlarge", "M60", 2, 32, 8192, "2.28", "0.684", "usw2-lax1-az1", "us-west-2"),
    cells("p2.16xlarge", "K80", 16, 64, 12288, "14.4", "4.32", "euw1-az2", "eu-west-1"),
)

_ODD = (
    "", " ", "0", "0.0", "-0.0", "0e9", "-1", "-12.24", "nan", "NaN", "inf", "-inf", "1e999",
    "1e-999", "1_000", "12,24", "$12.24", "١٢", "12.24.1", "0x10", "None", "True", "1e9", "1e-9",
    "1e309", "99999999999999999999", "0.125", "8.5", "Infinity", "12.24 USD", "'", "\x00", "\t3",
    "p5.48xlarge", "H100", "T4", "us-west-2", "use1-az1", "{'SizeInMiB': 81920}", "=1+1", "‮",
)  # fmt: skip


def line_of(values: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(values)
    return buffer.getvalue()


def mutated_line(rng: random.Random) -> str:
    """Returns a right row with one to four things done to it."""
    values = list(rng.choice(BASES))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(values)) if values else 0
        match rng.randrange(7):
            case 0:
                values[place] = rng.choice(_ODD)
            case 1:
                other = rng.randrange(len(values))
                values[place], values[other] = values[other], values[place]
            case 2:
                values[place] = rng.choice(rng.choice(BASES))
            case 3:
                values[place] = _edited(values[place], rng)
            case 4 if len(values) > 1:
                del values[place]
            case 5:
                values.insert(place, rng.choice(_ODD))
            case _:
                source = rng.choice(BASES)
                values[min(place, len(source) - 1)] = source[min(place, len(source) - 1)]
    line = line_of(values)
    if rng.random() < 0.2:
        line = _edited(line, rng)
    if rng.random() < 0.05:
        line = line[: rng.randrange(len(line) + 1)]
    return line.replace("\n", " ")


def _edited(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    letter = rng.choice("0123456789.,-+eE'\"{}[]: \tabcxyzé٣\x00")
    match rng.randrange(3):
        case 0:
            return text[:place] + letter + text[place:]
        case 1:
            return text[:place] + text[place + 1 :]
        case _:
            return text[:place] + letter + text[place + 1 :]


@dataclass(frozen=True)
class _Reading:
    gpu: str
    gpus: int
    vcpus: int
    usd: dict[Market, Decimal | None]


def imported(*lines: str) -> SkypilotImport:
    return import_skypilot([HEADER, *lines], "aws", DATE, KNOWN)


def assert_error_or_right(line: str) -> bool:
    """Checks what one line gives; returns whether it gave a price."""
    result = imported(line)
    if not result.prices:
        assert not result.types
        assert not line.strip() or result.dropped
        return False
    row = next(csv.reader([line], strict=True))
    assert len(row) == len(COLUMNS)
    reading = _read(dict(zip(COLUMNS, row, strict=True)))
    (kind,) = result.types
    assert (kind.name, kind.gpu, kind.gpus, kind.vcpus) == (
        row[0],
        reading.gpu,
        reading.gpus,
        reading.vcpus,
    )
    if kind.name in KNOWN:
        known = KNOWN[kind.name]
        assert (kind.gpu, kind.gpus, kind.vcpus) == (known.gpu, known.gpus, known.vcpus)
    for price in result.prices:
        _assert_right(price, row, reading)
    return True


def _assert_right(price: Price, row: list[str], reading: _Reading) -> None:
    usd = reading.usd[price.market]
    assert usd is not None
    assert price.usd_per_hour == float(usd)
    assert Decimal("0.005") <= usd / reading.gpus <= 1000
    assert (price.instance_type, price.region) == (row[0], row[8].strip())
    if price.market is Market.SPOT:
        assert (price.zone or "") == row[9].strip()
    else:
        assert price.zone is None
    assert price.date == DATE


def _read(row: dict[str, str]) -> _Reading:
    """Reads a row that gave a price, by other means than the importer; asserts that it can be."""
    (mib,) = set(map(int, re.findall(r"SizeInMiB['\"]\s*:\s*(\d+)", row["GpuInfo"]))) or {0}
    name = row["AcceleratorName"].strip().upper()
    candidates = [
        ours for (theirs, size), ours in OURS.items()
        if theirs == name or (theirs, name) in {("V100-32GB", "V100"), ("A100-80GB", "A100")}
        if mib == 0 or abs(size / mib - 1) < 0.25
    ]  # fmt: skip
    if len(candidates) > 1:  # no GpuInfo: the known type decides
        candidates = [KNOWN[row["InstanceType"]].gpu]
    assert len(candidates) == 1
    return _Reading(
        candidates[0],
        int(Decimal(row["AcceleratorCount"].strip())),
        int(Decimal(row["vCPUs"].strip())),
        {
            Market.ON_DEMAND: _decimal(row["Price"]),
            Market.SPOT: _decimal(row["SpotPrice"]),
        },
    )


def _decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
