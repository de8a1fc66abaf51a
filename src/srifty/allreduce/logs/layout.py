"""The columns of a table: named by its header, or deduced where the header is lost.

Everything here counts *cells*: the words of a row after its element type and its reduction, the
root included, a timestamp not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SIZES = ("size", "bytes")
_NAMES = {
    "bytes": "size",
    "n": "count",
    "op": "redop",
    "res": "check",
    "error": "check",
    "delta": "check",
    "wrong": "check",
    "#wrong": "check",
    "errors": "check",
    "cpu": "cpu",
    "cputime": "cpu",
}
_UNIT = re.compile(r"\((us|µs|μs|usec|ms|msec|s|sec)\)")
_UNITS_S = {
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "s": 1.0,
    "sec": 1.0,
}
UNITS_S = (1e-6, 1e-3, 1.0)


@dataclass(frozen=True, slots=True)
class Group:
    """Where the figures of one half of a row stand, as indices into the cells.

    Attributes:
        time: the time.
        algbw: the algorithm bandwidth.
        busbw: the bus bandwidth.
        check: the data check; None where there is none.
    """

    time: int
    algbw: int
    busbw: int
    check: int | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one table.

    Attributes:
        width: how many cells a row has.
        root: index of the root; None where there is none.
        groups: out-of-place and in-place halves, in the order printed.
        redop: whether rows name a reduction; None where either will do.
        cpu_time: whether the times are those of the processor, not of the operation.
        unit_s: seconds per unit of time; None where the header does not say.
        columns: how many columns the header names, for messages; 0 for a deduced layout.
    """

    width: int
    root: int | None
    groups: tuple[Group, ...]
    redop: bool | None = None
    cpu_time: bool = False
    unit_s: float | None = None
    columns: int = 0


def read_header(line: str) -> Layout | None:
    """Returns the layout that a header line names, or None where the line is no header."""
    words = re.sub(r"\([^)]*\)", " ", line).replace("|", " ").lower().split()
    start = next((i for i, word in enumerate(words) if word.lstrip("#") in SIZES), None)
    if start is None:
        return None
    names = [_NAMES.get(word, word) for word in words[start:]]
    names[0] = "size"
    names = [name for name in names if name != "timestamp"]
    if "type" not in names:
        return None
    redop = "redop" in names
    cells = [name for name in names if name not in ("size", "count", "type", "redop")]
    groups: list[Group] = []
    starts = [i for i, name in enumerate(cells) if name in ("time", "cpu")]
    for i, end in zip(starts, [*starts[1:], len(cells)], strict=True):
        rest = cells[i:end]
        if "algbw" not in rest or "busbw" not in rest:
            return None
        check = i + rest.index("check") if "check" in rest else None
        groups.append(Group(i, i + rest.index("algbw"), i + rest.index("busbw"), check))
    if not 1 <= len(groups) <= 2:
        return None
    return Layout(
        width=len(cells),
        root=cells.index("root") if "root" in cells else None,
        groups=tuple(groups),
        redop=redop,
        cpu_time="cpu" in cells,
        unit_s=read_unit(line) or (1e-3 if "bytes" in words and "res" in words else None),
        columns=len(names),
    )


def read_unit(line: str) -> float | None:
    """Returns seconds per unit of time where a header line says it: `(us)`, `(ms)`."""
    match = _UNIT.search(line)
    return _UNITS_S[match[1]] if match else None


def _deduced(root: bool, group_width: int, groups: int) -> Layout:
    first = int(root)
    check = 3 if group_width > 3 else None
    starts = [first + k * group_width for k in range(groups)]
    return Layout(
        width=first + groups * group_width,
        root=0 if root else None,
        groups=tuple(Group(i, i + 1, i + 2, None if check is None else i + check) for i in starts),
    )


# Most likely first: with and without a root; with the data check, without it, with the bits that
# differ, with four figures per iteration, with both; at last the halves on their own.
DEDUCED = tuple(
    _deduced(root, width, groups)
    for groups, widths in ((2, (4, 3, 5, 8, 9)), (1, (4, 3)))
    for width in widths
    for root in (True, False)
)
