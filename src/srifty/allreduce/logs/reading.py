"""A row's words → figures: by the header's columns, or by those that the arithmetic proves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from srifty.allreduce.logs.layout import DEDUCED, UNITS_S, Layout
from srifty.allreduce.logs.numbers import parse_number, parse_whole
from srifty.allreduce.logs.physics import Half, fits_unit, telling
from srifty.allreduce.logs.rows import ELEMENT_BYTES, RawRow


@dataclass(frozen=True, slots=True)
class Reading:
    """One row, read but not yet believed.

    Attributes:
        line: number of its first line, from 1.
        last_line: number of its last line.
        size_bytes: the size as printed.
        per_rank: size over count times element size: 1 where the count is of the whole message,
            the number of ranks where it is of one rank's part, 0 where neither can be.
        dtype: the element type.
        redop: the reduction; empty where none is named.
        root: the root as printed; empty where there is none.
        halves: out-of-place and in-place figures.
    """

    line: int
    last_line: int
    size_bytes: int
    per_rank: int
    dtype: str
    redop: str
    root: str
    halves: tuple[Half, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that cannot be read.

    Attributes:
        line: its line.
        reason: why not.
    """

    line: int
    reason: str


def read_rows(
    rows: Sequence[RawRow], header: Layout | None, *, in_place_only: bool
) -> tuple[list[Reading], list[Unread]]:
    """Returns the readings of a table's rows and what could not be read.

    Args:
        rows: the rows.
        header: the columns that the header names; None where there is none: then the columns are
            those that most rows agree with.
        in_place_only: whether a single half is the in-place one.
    """
    layouts = [header] if header is not None else _layouts(rows, in_place_only)
    readings: list[Reading] = []
    unread: list[Unread] = []
    for row in rows:
        found = next((r for layout in layouts for r in _attempts(row, layout, in_place_only)), None)
        if found is None:
            unread.append(Unread(row.line, _complaint(row, layouts[0] if layouts else None)))
        else:
            readings.append(found)
    return readings, unread


def _layouts(rows: Sequence[RawRow], in_place_only: bool) -> list[Layout]:
    """Returns the layout that most rows fit, the likelier one where several do."""
    votes: Counter[int] = Counter()
    for row in rows:
        for i, layout in enumerate(DEDUCED):
            if len(row.cells.texts) == layout.width:
                reading = _read(row, layout, row.cells.texts, row.line, in_place_only)
                if reading is not None and _proved(reading, strictly=False):
                    votes[i] += 1
    if votes:
        return [DEDUCED[max(votes, key=lambda i: (votes[i], -i))]]
    # Nothing fits: each row alone may still be one that was split over lines.
    return [DEDUCED[0], DEDUCED[1]] if any(row.pieces for row in rows) else []


def _attempts(row: RawRow, layout: Layout, in_place_only: bool) -> Iterator[Reading]:
    """Yields readings of a row: as it stands, then with its pieces on later lines."""
    if layout.redop is not None and layout.redop != bool(row.redop):
        return
    texts = row.cells.texts
    if len(texts) == layout.width:
        reading = _read(row, layout, texts, row.cells.line, in_place_only)
        if reading is not None and (not row.joined or _proved(reading, strictly=True)):
            yield reading
    if len(texts) > layout.width:
        return
    for piece in row.pieces:
        # A message may have cut a number in two, or have come between two numbers.
        joints = [texts + piece.texts]
        if texts:
            joints.append((*texts[:-1], texts[-1] + piece.texts[0], *piece.texts[1:]))
        for joint in joints:
            if len(joint) == layout.width:
                reading = _read(row, layout, joint, piece.line, in_place_only)
                if reading is not None and _proved(reading, strictly=True):
                    yield reading
        texts = joints[0]


def _read(
    row: RawRow, layout: Layout, texts: tuple[str, ...], last_line: int, in_place_only: bool
) -> Reading | None:
    size = parse_whole(row.size)
    count = parse_whole(row.count)
    if size is None or count is None or row.dtype not in ELEMENT_BYTES:
        return None
    root = "" if layout.root is None else texts[layout.root]
    if root and parse_number(root) is None:
        return None
    single = len(layout.groups) == 1
    halves: list[Half] = []
    for k, group in enumerate(layout.groups):
        time = parse_number(texts[group.time])
        algbw, busbw = parse_number(texts[group.algbw]), parse_number(texts[group.busbw])
        if time is None or algbw is None or busbw is None:
            return None
        check = "" if group.check is None else texts[group.check]
        in_place = (in_place_only or row.blank_half) if single else k == 1
        halves.append(Half(time, algbw, busbw, check, in_place))
    part = count * ELEMENT_BYTES[row.dtype]
    return Reading(
        line=row.line,
        last_line=last_line,
        size_bytes=size,
        per_rank=size // part if part and size % part == 0 else 0,
        dtype=row.dtype,
        redop=row.redop,
        root=root,
        halves=tuple(halves),
    )


def _proved(reading: Reading, *, strictly: bool) -> bool:
    """Returns whether the halves' arithmetic holds; `strictly`: with digits enough to prove it."""
    if strictly and not all(telling(half) for half in reading.halves):
        return False
    return any(
        all(fits_unit(reading.size_bytes, half, unit_s) for half in reading.halves)
        for unit_s in UNITS_S
    )


def _complaint(row: RawRow, layout: Layout | None) -> str:
    texts = row.cells.texts
    if parse_whole(row.size) is None or parse_whole(row.count) is None:
        return f"size {row.size} or count {row.count} is no whole number"
    if row.dtype not in ELEMENT_BYTES:
        return f"{row.dtype!r} is no element type"
    if layout is not None and layout.redop is not None and layout.redop != bool(row.redop):
        has = "has" if row.redop else "lacks"
        return f"{has} a reduction, unlike the header"
    if any(parse_number(text) is None and text.upper() != "N/A" for text in texts):
        return "holds a figure that is not finite"
    if layout is None:
        return "its columns agree with no layout of nccl-tests: size / time is not algbw"
    if len(texts) == layout.width:
        return "lacks a time or a bandwidth"
    if len(texts) > layout.width:
        return f"has {len(texts)} figures after its type where its table has {layout.width}"
    why = f"stops at {row.cells.stray[:40]!r}" if row.cells.stray else "is cut off"
    joined = ", and no line after it completes it" if row.pieces else ""
    return f"{why} after {len(texts)} of {layout.width} figures{joined}"
