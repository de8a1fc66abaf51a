"""Lines of home-made tests: `AllReduce: [[0, 1]] Bytes: 2.0 GB Time: 0.014 s Bandwidth: ...`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from srifty.allreduce.dropped import DroppedRow
from srifty.allreduce.logs.numbering import Numbering
from srifty.allreduce.logs.parsed import LogRow
from srifty.allreduce.logs.physics import GIGA, LEAST_S, MOST_GBPS, MOST_SIZE_BYTES
from srifty.allreduce.logs.printed import parse_number
from srifty.core.allreduce import Collective

_LINE = re.compile(
    r"\b([A-Za-z_-]+)\s*:\s*\[\s*(\[[\d,\s]*\](?:\s*,\s*\[[\d,\s]*\])*)\s*\]\s*"
    r"Bytes:\s*([\d.,]+)\s*([kKMGT]?i?B)\s+Time:\s*([\d.eE+-]+)\s*(s|ms|us)\b\s*"
    r"(?:Band[Ww]idth|BW|busbw|algbw):\s*([\d.eE+-]+)\s*GB/s"
)
_COLLECTIVES = {
    "allreduce": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_DECIMAL = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}


@dataclass(frozen=True, slots=True)
class HomeMade:
    """What the home-made lines of a log hold.

    Attributes:
        rows: rows to use, each with its own world size.
        dropped: lines not to use.
    """

    rows: tuple[LogRow, ...]
    dropped: tuple[DroppedRow, ...]


def read_home_made(
    lines: list[str], given: int | None, vms: int | None, numbering: Numbering
) -> HomeMade:
    """Returns the home-made rows of a log.

    Units are as written, kilo being 1000; whether the bandwidth is that of the algorithm or of the
    bus follows from size and time, and a line for which neither holds is dropped.

    Args:
        lines: the log's lines.
        given: the world size that the user gives, to which each line must agree.
        vms: the number of VMs that the user gives.
        numbering: the numbers that its tables get.
    """
    numbering.begin()
    rows: list[LogRow] = []
    dropped: list[DroppedRow] = []
    for number, line in enumerate(lines, 1):
        if "Bytes:" not in line:
            continue
        for match in _LINE.finditer(line):
            row = _row(match, given, vms)
            if isinstance(row, str):
                dropped.append(DroppedRow(number, row))
                continue
            collective, world_size, size_bytes, time_s = row
            table = numbering.table((collective, world_size, size_bytes), time_s)
            if table is None:
                dropped.append(DroppedRow(number, "repeats an earlier line"))
                continue
            rows.append(
                LogRow(
                    line=number,
                    last_line=number,
                    table=table,
                    run=numbering.run(collective, world_size, table),
                    collective=collective,
                    size_bytes=size_bytes,
                    time_s=time_s,
                    in_place=False,
                    dtype="",
                    redop="",
                    world_size=world_size,
                    vms=vms,
                )
            )
    return HomeMade(tuple(rows), tuple(dropped))


def _row(
    match: re.Match[str], given: int | None, vms: int | None
) -> tuple[Collective, int, int, float] | str:
    """Returns collective, ranks, bytes and seconds of a line, or why it is refused."""
    name, groups, size_text, size_unit, time_text, time_unit, speed_text = match.groups()
    collective = _COLLECTIVES.get(name.lower().replace("_", "").replace("-", ""))
    if collective is None:
        return f"{name} is neither an allreduce nor an all-gather nor a reduce-scatter"
    groups_found = re.findall(r"\[([\d,\s]*)\]", groups)
    if len(groups_found) != 1:
        return f"{len(groups_found)} groups of ranks ran at the same time"
    ids = [text.strip() for text in groups_found[0].split(",")]
    size, time, speed = (parse_number(text) for text in (size_text, time_text, speed_text))
    if size is None or time is None or speed is None or time.low <= 0:
        return "holds a figure that is no number above 0"
    n = len(ids)
    if n < 2 or len(set(ids)) != n or not all(text.isdigit() for text in ids):
        return f"lists {n} ranks, not at least two different ones"
    if given is not None and given != n:
        return f"lists {n} ranks, but --world-size says {given}"
    if vms is not None and vms > n:
        return f"{vms} VMs cannot hold only {n} ranks"
    binary = "i" in size_unit
    power = _DECIMAL[size_unit.upper().replace("I", "")]
    size = size.scaled(float((1024 if binary else 1000) ** power))
    time = time.scaled(_SECONDS[time_unit])
    low, high = size.low / time.high / GIGA, size.high / time.low / GIGA
    bus = collective.bus_factor(n)
    if not any(low * f <= speed.high and speed.low <= high * f for f in (1.0, bus)):
        return (
            f"size / time is {size.value / time.value / GIGA:.6g} GB/s, and neither that nor its "
            f"bus bandwidth for {n} ranks is {speed.value:g} GB/s"
        )
    if time.value < LEAST_S or high > MOST_GBPS or not 1 <= size.value <= MOST_SIZE_BYTES:
        return "is faster or larger than any hardware"
    return collective, n, round(size.value), time.value
