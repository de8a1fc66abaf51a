"""What a probe measured: as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.core.allreduce import AllreduceSample, Collective
from srifty.probing.burst import LongRun
from srifty.probing.findings import Findings
from srifty.units import format_bandwidth, format_bytes, format_duration


@dataclass(frozen=True, slots=True)
class Row:
    """The repeats of one cell.

    Attributes:
        size_bytes: bytes that each rank contributes to one allreduce.
        concurrent: allreduces at once.
        samples: how many repeats.
        median_s: median seconds until all had ended.
        spread: (slowest - fastest) / median.
        algorithm_bytes_per_s: bytes of all transfers at once per second.
        bus_bytes_per_s: the same as bus bandwidth.
    """

    size_bytes: int
    concurrent: int
    samples: int
    median_s: float
    spread: float
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float


def rows_of(samples: Sequence[AllreduceSample]) -> tuple[Row, ...]:
    """Returns one row per size and concurrency, ascending."""
    cells: dict[tuple[int, int], list[AllreduceSample]] = {}
    for sample in samples:
        cells.setdefault((sample.size_bytes, sample.concurrent), []).append(sample)
    rows: list[Row] = []
    for (size, concurrent), repeats in sorted(cells.items()):
        times = [sample.time_s for sample in repeats]
        middle = median(times)
        algorithm = size * concurrent / middle
        factor = Collective.ALL_REDUCE.bus_factor(repeats[0].world_size)
        rows.append(
            Row(
                size,
                concurrent,
                len(times),
                middle,
                (max(times) - min(times)) / middle,
                algorithm,
                algorithm * factor,
            )
        )
    return tuple(rows)


def probe_document(findings: Findings, stored: str, ended: str) -> dict[str, Any]:
    """Returns the findings for JSON; times in seconds, bandwidths in bytes per second.

    Args:
        findings: what was measured.
        stored: where the samples were put; empty if there were none.
        ended: `done`, or why it ended early.
    """
    first = findings.samples[0] if findings.samples else None
    return {
        "ended": ended,
        "stored": stored or None,
        "samples": len(findings.samples),
        "instance_type": first.instance_type if first else None,
        "vms": first.vms if first else None,
        "world_size": first.world_size if first else None,
        "gpu": first.gpu if first else None,
        "transport": first.transport if first else None,
        "library_version": first.library_version if first else None,
        "config": first.config if first else None,
        "source": first.source if first else None,
        "rows": [
            {
                "size_bytes": row.size_bytes,
                "concurrent": row.concurrent,
                "samples": row.samples,
                "median_s": row.median_s,
                "spread": row.spread,
                "algorithm_bytes_per_s": row.algorithm_bytes_per_s,
                "bus_bytes_per_s": row.bus_bytes_per_s,
            }
            for row in rows_of(findings.samples)
        ],
        "burst_samples_not_kept": len(findings.burst),
        "long": _long_document(findings.long) if findings.long else None,
        "notes": findings.notes,
    }


def _long_document(long: LongRun) -> dict[str, Any]:
    return {
        "size_bytes": long.cell.size_bytes,
        "concurrent": long.cell.concurrent,
        "trend": long.trend.name.lower(),
        "message": long.trend.value,
        "first_s": long.first_s,
        "last_s": long.last_s,
        "points": [{"at_s": point.at_s, "time_s": point.time_s} for point in long.points],
    }


def show_findings(console: Console, findings: Findings) -> None:
    """Prints the table, and the long run if there was one."""
    if findings.samples:
        _show_table(console, findings.samples)
    if findings.long:
        _show_long(console, findings.long)


def _show_table(console: Console, samples: Sequence[AllreduceSample]) -> None:
    first = samples[0]
    is_gloo = first.library_version.startswith("gloo")
    library = first.library_version if is_gloo else f"NCCL {first.library_version}"
    over = f" over {first.transport}" if first.transport else ""
    console.print(
        Text(
            f"allreduce among {first.world_size} ranks ({first.gpu}) on {first.vms} "
            f"VM{'s' if first.vms > 1 else ''} ({first.instance_type}), {library}{over}",
            style="bold",
        )
    )
    rows = rows_of(samples)
    table = Table(box=None, padding=(0, 2), header_style="dim")
    several = any(row.concurrent > 1 for row in rows)
    at_once = ["at once"] if several else []
    for heading in ("size", *at_once, "repeats", "time, median", "spread", "algbw", "busbw"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            format_bytes(row.size_bytes),
            *([str(row.concurrent)] if several else []),
            str(row.samples),
            format_duration(row.median_s),
            f"{row.spread:.0%}",
            format_bandwidth(row.algorithm_bytes_per_s),
            format_bandwidth(row.bus_bytes_per_s),
        )
    console.print(table)
    console.print(
        Text("time: until the slowest rank is done; spread: (slowest - fastest) / median", "dim")
    )


def _show_long(console: Console, long: LongRun) -> None:
    console.print()
    console.print(Text(f"{long.cell} over and over: {long.trend.value}", style="bold"))
    for point in long.slices():
        bandwidth = format_bandwidth(long.bus_bytes_per_s(point.time_s))
        console.print(f"  until {format_duration(point.at_s)}: busbw {bandwidth}")
