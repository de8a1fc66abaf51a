"""SkyPilot's public catalog (one CSV per cloud): to prices and instance types of ours.

Its rows are (instance type, zone) with an on-demand and a spot price. Taken are rows with NVIDIA
GPUs that we have a name for, whose facts agree with each other, with the other rows of the type and
with what Srifty knows of it. Whatever is not taken is counted by reason, with its first lines.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from srifty.catalog.gpu_names import is_known_gpu, our_gpu
from srifty.catalog.price import Price
from srifty.catalog.sanity import PriceReason, judge_price, parse_number
from srifty.catalog.store import TypeRow
from srifty.core.hardware import InstanceType
from srifty.core.offers import Market
from srifty.errors import InputError
from srifty.inputs import read_text, split_csv_line

_REQUIRED = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "GpuInfo", "Price",
    "SpotPrice", "Region",
)  # fmt: skip
_ZONE = "AvailabilityZone"
_MOST_GPUS = 64
_MOST_VCPUS = 4096
_FIRST_LINES = 5
_SOME_MEMORY = re.compile(r"['\"]SizeInMiB['\"]\s*:\s*(\d{1,9})(?:\.0+)?\s*}", re.ASCII)
_SOME_COUNT = re.compile(r"['\"]Count['\"]\s*:\s*(\d{1,4})(?:\.0+)?\s*[,}]", re.ASCII)
# GCP's A2 and A3 machines stand in rows of their own, apart from the GPUs that they always have.
_HOST_ONLY = re.compile(r"a[23]-(highgpu|megagpu|ultragpu|edgegpu)-")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,79}", re.ASCII)
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,79}", re.ASCII)
_AWS_REGION = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d{1,2})", re.ASCII)
_COMPASS = re.compile(r"north|south|east|west|central|gov|iso[a-z]?")


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Rows, or prices of rows, that were not taken for one reason.

    Attributes:
        reason: why.
        count: how many.
        first_lines: the first few lines in the file, from 1.
        gap: whether the file just has nothing there (a row without GPUs, no spot price), which is
            common and no fault.
    """

    reason: str
    count: int
    first_lines: tuple[int, ...]
    gap: bool


@dataclass(frozen=True, slots=True)
class SkypilotImport:
    """What a file gave.

    Attributes:
        prices: on-demand prices by region (and by zone where it differs), spot prices by zone.
        types: the instance types of the prices.
        rows: rows of the file, the header left out.
        rows_taken: rows that gave at least one price.
        dropped: what was not taken, most frequent first.
    """

    prices: tuple[Price, ...]
    types: tuple[TypeRow, ...]
    rows: int
    rows_taken: int
    dropped: tuple[DroppedRows, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    gpu: str
    gpus: int
    gpu_memory_bytes: int
    vcpus: int


@dataclass(frozen=True, slots=True)
class _Offered:
    line: int
    name: str
    facts: _Facts
    region: str
    zone: str | None
    price: str
    spot_price: str


class _UnfitError(ValueError):
    """A row cannot be taken; the message is the reason."""


class _Ledger:
    """Counts what is dropped, by reason."""

    def __init__(self) -> None:
        self._lines: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
        self._counts: Counter[tuple[str, bool]] = Counter()

    def add(self, reason: str, line: int, *, gap: bool = False) -> None:
        key = (reason, gap)
        self._counts[key] += 1
        if len(self._lines[key]) < _FIRST_LINES:
            self._lines[key].append(line)

    def dropped(self) -> tuple[DroppedRows, ...]:
        return tuple(
            DroppedRows(reason, count, tuple(sorted(self._lines[reason, gap])), gap)
            for (reason, gap), count in sorted(
                self._counts.items(), key=lambda item: (item[0][1], -item[1], item[0][0])
            )
        )


def read_skypilot(
    path: Path, cloud: str, date: str, known: Mapping[str, InstanceType]
) -> SkypilotImport:
    """Returns the prices and instance types of a catalog file.

    Args:
        path: the CSV file, such as `catalogs/v8/aws/vms.csv`.
        cloud: the cloud whose file it is; the file does not say.
        date: ISO time, with its zone, at which the prices were true; the file does not say either.
        known: instance types by name, which rows must not contradict.

    Raises:
        InputError: the file cannot be read, or lacks a column.
    """
    lines = read_text(path, "SkyPilot catalog").split("\n")
    return import_skypilot(lines, cloud, date, known, source=path.name, where=str(path))


def import_skypilot(
    lines: Iterable[str],
    cloud: str,
    date: str,
    known: Mapping[str, InstanceType],
    *,
    source: str = "SkyPilot catalog",
    where: str | None = None,
) -> SkypilotImport:
    """Returns the prices and instance types of the lines of a catalog file; see `read_skypilot`.

    Args:
        lines: the header and the rows.
        cloud: the cloud whose file it is.
        date: ISO time, with its zone, at which the prices were true.
        known: instance types by name, which rows must not contradict.
        source: what the prices' source is called.
        where: the file's name in messages.

    Raises:
        InputError: the header lacks a column.
    """
    rest = iter(lines)
    header = [cell.strip() for cell in split_csv_line(next(rest, "").strip("\r\ufeff")) or ()]
    missing = [name for name in _REQUIRED if header.count(name) != 1]
    if missing:
        raise InputError(
            f"is no SkyPilot catalog: it lacks the column(s) {', '.join(missing)}; take "
            "catalogs/<version>/<cloud>/vms.csv of skypilot-org/skypilot-catalog",
            where,
        )
    ledger = _Ledger()
    cells_of = _picker(header)
    offered: list[_Offered] = []
    rows = 0
    for number, text in enumerate(rest, start=2):
        line = text.rstrip("\r\n")
        if not line.strip():
            continue
        rows += 1
        cells = split_csv_line(line)
        if cells is None or len(cells) != len(header):
            ledger.add("does not have the header's columns", number)
            continue
        name, accelerator, count, vcpus, info, price, spot, region, zone = cells_of(cells)
        if not accelerator.strip() or accelerator.strip() == "CPU-ONLY":
            ledger.add("has no GPU", number, gap=True)
            continue
        try:
            facts = _facts_of(name, accelerator, count, vcpus, info, known.get(name))
            place = _place_of(cloud, region, zone)
        except _UnfitError as unfit:
            ledger.add(str(unfit), number)
            continue
        offered.append(_Offered(number, name, facts, place[0], place[1], price, spot))
    agreed = _agreed(offered, ledger)
    label = f"{source} (SkyPilot catalog)"
    prices, taken = _prices(agreed, cloud, date, label, ledger)
    priced = {price.instance_type for price in prices}
    types = {
        one.name: TypeRow(
            cloud,
            one.name,
            one.facts.gpu,
            one.facts.gpus,
            one.facts.gpu_memory_bytes,
            one.facts.vcpus,
            label,
        )
        for one in agreed
        if one.name in priced
    }
    return SkypilotImport(
        prices, tuple(types[name] for name in sorted(types)), rows, taken, ledger.dropped()
    )


def _picker(header: list[str]) -> Callable[[list[str]], list[str]]:
    """Returns what picks the columns we read, in one order, from a row's cells."""
    places = [header.index(column) for column in _REQUIRED]
    zone = header.index(_ZONE) if _ZONE in header else None

    def pick(cells: list[str]) -> list[str]:
        picked = [cells[place] for place in places]
        picked.append("" if zone is None else cells[zone])
        return picked

    return pick


@lru_cache(maxsize=16_384)
def _facts_of(
    name: str, accelerator: str, count: str, vcpus: str, info: str, known: InstanceType | None
) -> _Facts:
    """Returns what a row says of its type, checked; equal rows are checked once."""
    if not name.strip():
        raise _UnfitError("has no instance type (the price is of the GPU alone)")
    if _HOST_ONLY.match(name):
        raise _UnfitError("the price is of the machine alone (GCP lists its GPUs apart)")
    if not _NAME.fullmatch(name):
        raise _UnfitError("instance type is not a name")
    if not is_known_gpu(accelerator):
        raise _UnfitError(f"GPU not known to Srifty: {_shown(accelerator)}")
    gpus = _whole(count, _MOST_GPUS)
    if gpus is None:
        raise _UnfitError("AcceleratorCount is not a whole number of GPUs")
    cpus = _whole(vcpus, _MOST_VCPUS)
    if cpus is None:
        raise _UnfitError("vCPUs is not a whole number")
    memory_mib = _memory_mib(info, gpus)
    gpu = our_gpu(accelerator, memory_mib)
    # V100 and A100 come in two sizes; for a type we know the row need not say which.
    base = accelerator.strip().upper()
    if memory_mib is None and known is not None and known.gpu.upper().split("-")[0] == base:
        gpu = (known.gpu, known.gpu_memory_bytes)
    if gpu is None:
        raise _UnfitError("GpuInfo has no memory that fits the GPU")
    facts = _Facts(gpu[0], gpus, gpu[1], cpus)
    if known is not None and (facts.gpu, gpus, cpus) != (known.gpu, known.gpus, known.vcpus):
        raise _UnfitError("contradicts what Srifty knows of the type (GPU, their number, or vCPUs)")
    return facts


def _memory_mib(info: str, gpus: int) -> int | None:
    """Returns the memory of one GPU in MiB as GpuInfo states it; None where it is empty.

    Raises:
        _UnfitError: it states none, several, or another number of GPUs than the row.
    """
    if not info.strip() or info.strip().lower() in ("nan", "none"):
        return None
    sizes = {int(size) for size in _SOME_MEMORY.findall(info)}
    counts = {int(count) for count in _SOME_COUNT.findall(info)}
    if len(sizes) != 1:
        raise _UnfitError("GpuInfo does not state the memory of one GPU")
    if counts and counts != {gpus}:
        raise _UnfitError("GpuInfo and AcceleratorCount differ in the number of GPUs")
    return sizes.pop()


def _whole(text: str, most: int) -> int | None:
    """Returns a count from 1 to `most`, written `8` or `8.0`; None where it is none."""
    value = parse_number(text)
    if value is None or not 1 <= value <= most or value != int(value):
        return None
    return int(value)


@lru_cache(maxsize=16_384)
def _place_of(cloud: str, region: str, zone: str) -> tuple[str, str | None]:
    """Returns region and zone; None where the file names no zone.

    Raises:
        _UnfitError: they are no names, or the zone is of another region.
    """
    region, zone = region.strip(), zone.strip()
    if not _PLACE.fullmatch(region):
        raise _UnfitError("Region is not a name")
    if cloud == "aws" and not _AWS_REGION.fullmatch(region):
        raise _UnfitError("Region is not a region of AWS")
    if not zone:
        return region, None
    if not _PLACE.fullmatch(zone):
        raise _UnfitError("AvailabilityZone is not a name")
    starts: tuple[str, ...] = ("",)
    if cloud == "aws":
        starts = (region, f"{_aws_zone_prefix(region)}-")
    elif cloud == "gcp":
        starts = (f"{region}-",)
    if not zone.startswith(starts):
        raise _UnfitError("AvailabilityZone is of another region")
    return region, zone


@lru_cache(maxsize=256)
def _aws_zone_prefix(region: str) -> str:
    """Returns how zone ids begin: `use1` for `us-east-1`, `apne1` for `ap-northeast-1`."""
    continent, *directions, number = region.split("-")
    letters = "".join(part[0] for word in directions for part in _COMPASS.findall(word))
    return f"{continent}{letters}{number}"


def _agreed(offered: list[_Offered], ledger: _Ledger) -> list[_Offered]:
    """Returns the rows that agree with most rows of their type; none of a type that is torn."""
    votes: defaultdict[str, Counter[_Facts]] = defaultdict(Counter)
    for one in offered:
        votes[one.name][one.facts] += 1
    chosen: dict[str, _Facts | None] = {}
    for name, counter in votes.items():
        ranked = counter.most_common(2)
        torn = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
        chosen[name] = None if torn else ranked[0][0]
    kept: list[_Offered] = []
    for one in offered:
        if chosen[one.name] == one.facts:
            kept.append(one)
        else:
            ledger.add("contradicts other rows of the type", one.line)
    return kept


def _prices(
    offered: list[_Offered], cloud: str, date: str, source: str, ledger: _Ledger
) -> tuple[tuple[Price, ...], int]:
    """Returns the prices that can be believed, and how many rows gave one."""
    listed: defaultdict[tuple[str, str, Market], list[tuple[_Offered, float]]] = defaultdict(list)
    for one in offered:
        for market, text in ((Market.ON_DEMAND, one.price), (Market.SPOT, one.spot_price)):
            judged = judge_price(text, one.facts.gpus)
            if isinstance(judged, PriceReason):
                gap = judged is PriceReason.MISSING
                ledger.add(f"{market}: {judged.value}", one.line, gap=gap)
            else:
                listed[one.name, one.region, market].append((one, judged))
    prices: list[Price] = []
    taken: set[int] = set()
    for (name, region, market), found in sorted(listed.items()):
        by_zone: dict[str | None, float] = {}
        for zone, entries in _by_zone(found).items():
            values = {usd for _, usd in entries}
            if len(values) > 1:
                for one, _ in entries:
                    ledger.add(f"{market}: several prices for one type and zone", one.line)
                continue
            by_zone[zone] = values.pop()
            taken.update(one.line for one, _ in entries)
        if market is Market.ON_DEMAND:
            by_zone = _by_region(by_zone)
        prices += [
            Price(cloud, name, market, region, zone, usd, date, source)
            for zone, usd in sorted(by_zone.items(), key=lambda item: item[0] or "")
        ]
    return tuple(prices), len(taken)


def _by_zone(
    found: list[tuple[_Offered, float]],
) -> dict[str | None, list[tuple[_Offered, float]]]:
    zones: defaultdict[str | None, list[tuple[_Offered, float]]] = defaultdict(list)
    for one, usd in found:
        zones[one.zone].append((one, usd))
    return zones


def _by_region(by_zone: dict[str | None, float]) -> dict[str | None, float]:
    """Returns one price for the region, and those of zones where it differs (local zones).

    The region's is the most frequent; of several equally frequent ones the highest.
    """
    if not by_zone:
        return {}
    counts = Counter(by_zone.values())
    common = max(counts, key=lambda usd: (counts[usd], usd))
    return {None: common} | {zone: usd for zone, usd in by_zone.items() if usd != common and zone}


def _shown(text: str) -> str:
    printable = "".join(c for c in text.strip() if c.isprintable())
    return printable if len(printable) <= 30 else printable[:27] + "..."
