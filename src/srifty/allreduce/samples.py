"""Samples as CSV, read and written, and the built-in ones."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import TextIO

from srifty.allreduce.dropped import DroppedRow
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError, Problem
from srifty.inputs import read_text, split_csv_line

CSV_KIND = "CSV file of allreduce samples"
COLUMNS = (
    "cloud", "instance_type", "gpu", "nodes", "gpus_per_node", "world_size", "nccl_version",
    "size_bytes", "time_us", "collective", "region", "zone", "transport", "dtype", "inplace",
    "config", "run", "concurrent", "measured_at", "placement_group", "source",
)  # fmt: skip
_REQUIRED = ("instance_type", "nodes", "world_size", "size_bytes", "time_us")
_YES_OR_NO = {"1": True, "true": True, "0": False, "false": False}
_MOST_PROBLEMS = 20
_LINES_PER_REPORT = 5000
# No link between GPUs moves that much: the unit of the size or of the time is another one.
_MOST_BYTES_PER_S = 5e12
# How far a bandwidth that stands in a row may be from its size and time.
_BANDWIDTH_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class ParsedCsv:
    """What a CSV file holds.

    Attributes:
        samples: the good rows, in the file's order.
        dropped: the bad ones.
    """

    samples: tuple[AllreduceSample, ...]
    dropped: tuple[DroppedRow, ...]


def read_samples(path: Path) -> tuple[AllreduceSample, ...]:
    """Returns the samples of a CSV file; see `parse_samples` for its columns.

    Raises:
        InputError: the file cannot be read, lacks a column, or has bad rows (all reported).
    """
    return _whole_or_error(parse_samples(read_text(path, CSV_KIND), str(path)), str(path))


def builtin_samples() -> tuple[AllreduceSample, ...]:
    """Returns the samples that Srifty ships, taken from public logs (each with its source)."""
    name = "built-in allreduce samples"
    return _whole_or_error(parse_samples(builtin_text(), name), name)


def builtin_text() -> str:
    """Returns the CSV text of the built-in samples."""
    return resources.files("srifty").joinpath("data", "allreduce.csv").read_text(encoding="utf-8")


def parse_samples(
    text: str,
    source: str,
    given: Mapping[str, str] | None = None,
    *,
    only: Collective | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ParsedCsv:
    r"""Returns the good and the bad rows of a CSV text.

    Columns: `instance_type, nodes, world_size, size_bytes, time_us` and, where known, the others of
    `COLUMNS`, in any order; `algbw_gbps` and `busbw_gbps` (1e9 bytes per second) are checked where
    they stand; others are ignored.

    Args:
        text: the file's text; lines end with `\n`.
        source: the file's name, for messages.
        given: cells by column for rows that leave them empty; a row that says otherwise is bad.
        only: a row of another collective is bad; None: none is.
        progress: is told now and then how many lines of how many are read.

    Raises:
        InputError: the text lacks a column, or has one twice.
    """
    given = given or {}
    lines = text.split("\n")
    top = next((number for number, line in enumerate(lines) if line.strip()), 0)
    header = [name.strip() for name in split_csv_line(lines[top]) or ()]
    missing = [name for name in _REQUIRED if name not in (*header, *given)]
    if missing:
        raise InputError(
            f"lacks the column(s) {', '.join(missing)}; a {CSV_KIND} has a header line with "
            f"{','.join(_REQUIRED)}, separated by commas; logs of nccl-tests go through srifty "
            "allreduce import",
            source,
        )
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise InputError(f"has the column(s) {', '.join(twice)} twice", source)
    samples: list[AllreduceSample] = []
    dropped: list[DroppedRow] = []
    for number, line in enumerate(lines[top + 1 :], start=top + 2):
        if progress is not None and number % _LINES_PER_REPORT == 0:
            progress(number, len(lines))
        if not line.strip():
            continue
        try:
            sample = _sample(_row(line, header, given))
            if only not in (None, sample.collective):
                raise InputError(f"is {sample.collective}, but {only} was asked for")
            samples.append(sample)
        except InputError as error:
            dropped += [DroppedRow(number, problem.message) for problem in error.problems]
    return ParsedCsv(tuple(samples), tuple(dropped))


def write_samples(samples: Iterable[AllreduceSample], file: TextIO) -> int:
    """Writes samples as CSV so that reading gives equal ones; returns how many there were.

    Args:
        samples: what to write.
        file: a text file, opened with `newline=""`.

    Raises:
        InputError: a sample cannot be written; see `require_storable`.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = 0
    for sample in samples:
        require_storable(sample)
        writer.writerow(_cells(sample))
        rows += 1
    return rows


def require_storable(sample: AllreduceSample) -> None:
    """Raises `InputError` where a text of a sample is not one plain line, or a date is no date.

    A line break or a blank at an end would be lost in a CSV file, and with it the curve's identity.
    """
    for name in (
        "instance_type", "cloud", "transport", "library_version", "source", "gpu", "region", "zone",
        "config", "run", "dtype",
    ):  # fmt: skip
        text: str = getattr(sample, name)
        if not text.isprintable() or text != text.strip():
            raise InputError(
                f"{name} must be one line of plain text without blanks around, not {text!r}"
            )
    if not sample.instance_type:
        raise InputError("instance_type is empty")
    if sample.measured_at is not None:
        in_utc(sample.measured_at)


def in_utc(moment: datetime) -> datetime:
    """Returns the same moment in UTC; it must have a zone.

    Raises:
        InputError: the year would be none of 1 to 9999.
    """
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InputError(f"measured_at is out of range: {moment.isoformat()}") from None


def parse_measured_at(text: str) -> datetime:
    """Returns the moment that ISO 8601 text stands for; UTC where it names no zone.

    Raises:
        InputError: it is no such text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"measured_at must be an ISO 8601 date or time such as 2026-07-20T12:00:00+00:00, not "
            f"{text!r}"
        ) from None
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _whole_or_error(parsed: ParsedCsv, source: str) -> tuple[AllreduceSample, ...]:
    if parsed.dropped:
        problems = [Problem(f"line {row.line}", row.reason) for row in parsed.dropped]
        hidden = len(problems) - _MOST_PROBLEMS
        if hidden > 0:
            problems = [*problems[:_MOST_PROBLEMS], Problem("", f"and {hidden} more bad rows")]
        raise InputError(problems, source)
    if not parsed.samples:
        raise InputError("has no rows", source)
    return parsed.samples


def _row(line: str, header: list[str], given: Mapping[str, str]) -> dict[str, str]:
    """Returns the cells of a row by column, with what was given where it is silent."""
    cells = split_csv_line(line)
    if cells is None:
        raise InputError("has a stray quote")
    if len(cells) > len(header):
        raise InputError("has more cells than the header")
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=False)}
    for name, text in given.items():
        found = row.get(name)
        if found and found != text:
            raise InputError(f"{name} is {found!r}, but {text!r} was given")
        row[name] = text
    return row


def _sample(row: Mapping[str, str]) -> AllreduceSample:
    if not row.get("instance_type"):
        raise InputError("instance_type is empty")
    vms, world_size = _whole(row, "nodes"), _whole(row, "world_size")
    if row.get("gpus_per_node"):
        each = _whole(row, "gpus_per_node")
        if vms * each != world_size:
            raise InputError(
                f"nodes x gpus_per_node = {vms} x {each} is {vms * each}, but world_size is "
                f"{world_size}"
            )
    sample = AllreduceSample(
        instance_type=row["instance_type"],
        vms=vms,
        world_size=world_size,
        size_bytes=_whole(row, "size_bytes"),
        time_s=_seconds(row),
        cloud=row.get("cloud", ""),
        transport=row.get("transport", ""),
        library_version=row.get("nccl_version", ""),
        source=row.get("source", ""),
        collective=_collective(row),
        gpu=row.get("gpu", ""),
        region=row.get("region", ""),
        zone=row.get("zone", ""),
        config=row.get("config", ""),
        run=row.get("run", ""),
        dtype=row.get("dtype", ""),
        in_place=_yes_or_no(row, "inplace") or False,
        concurrent=_whole(row, "concurrent") if row.get("concurrent") else 1,
        placement_group=_yes_or_no(row, "placement_group"),
        measured_at=parse_measured_at(row["measured_at"]) if row.get("measured_at") else None,
    )
    _check_bandwidth(sample, row)
    return sample


def _check_bandwidth(sample: AllreduceSample, row: Mapping[str, str]) -> None:
    if sample.algorithm_bytes_per_s >= _MOST_BYTES_PER_S:
        raise InputError(
            f"{sample.size_bytes} bytes in {row['time_us']} µs are "
            f"{sample.algorithm_bytes_per_s:.3g} bytes per second, more than any hardware moves; "
            "time_us counts microseconds"
        )
    for name, bytes_per_s in (
        ("algbw_gbps", sample.algorithm_bytes_per_s),
        ("busbw_gbps", sample.bus_bytes_per_s),
    ):
        if not row.get(name):
            continue
        stated, derived = _number(row, name), bytes_per_s / 1e9
        # Logs print two decimals: 0.00 at small sizes agrees with anything below 0.005.
        exponent = Decimal(row[name]).as_tuple().exponent
        rounding = 0.5 * 10.0**exponent if isinstance(exponent, int) else 0.0
        if not abs(stated - derived) <= _BANDWIDTH_FRACTION * derived + rounding:
            raise InputError(
                f"{name} is {row[name]}, but size and time give {derived:.4g} (1e9 bytes per "
                "second)"
            )


def _cells(sample: AllreduceSample) -> tuple[object, ...]:
    """Returns the cells of a sample in the order of `COLUMNS`."""
    each, rest = divmod(sample.world_size, sample.vms)
    return (
        sample.cloud,
        sample.instance_type,
        sample.gpu,
        sample.vms,
        "" if rest else each,
        sample.world_size,
        sample.library_version,
        sample.size_bytes,
        Decimal(repr(float(sample.time_s))).scaleb(6),
        sample.collective.value,
        sample.region,
        sample.zone,
        sample.transport,
        sample.dtype,
        int(sample.in_place),
        sample.config,
        sample.run,
        sample.concurrent,
        "" if sample.measured_at is None else in_utc(sample.measured_at).isoformat(),
        "" if sample.placement_group is None else int(sample.placement_group),
        sample.source,
    )


def _whole(row: Mapping[str, str], name: str) -> int:
    text = row.get(name, "")
    # int() alone takes underscores and digits of other scripts too.
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20):
        raise InputError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _number(row: Mapping[str, str], name: str) -> float:
    text = row.get(name, "")
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} must be a number, not {text!r}")
    return number


def _seconds(row: Mapping[str, str]) -> float:
    """Returns the time of a row.

    The decimal point is moved before the text becomes a float: dividing afterwards would give
    another float than the one that was written, now and then.
    """
    if not _number(row, "time_us") > 0:
        raise InputError(f"time_us must be above 0, not {row['time_us']!r}")
    return float(Decimal(row["time_us"]).scaleb(-6))


def _yes_or_no(row: Mapping[str, str], name: str) -> bool | None:
    text = row.get(name, "")
    if text and text.lower() not in _YES_OR_NO:
        raise InputError(f"{name} must be 0, 1, true or false, not {text!r}")
    return _YES_OR_NO.get(text.lower())


def _collective(row: Mapping[str, str]) -> Collective:
    text = row.get("collective", "")
    try:
        return Collective(text.lower()) if text else Collective.ALL_REDUCE
    except ValueError:
        names = ", ".join(Collective)
        raise InputError(f"collective must be one of {names}, not {text!r}") from None
