"""Small CSV tables of the user's: read with file and line of every fault, written atomically."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from srifty.errors import InputError, Problem
from srifty.inputs import read_text, split_csv_line

_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        line: its line in the file, from 1; the header is line 1.
        cells: text by column; empty where the file has nothing.
    """

    line: int
    cells: Mapping[str, str]


def read_rows(path: Path, kind: str, required: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of a CSV file; columns may stand in any order, blank lines are passed over.

    Raises:
        InputError: the file cannot be read, lacks a column, or has a row with a stray quote or
            more cells than columns.
    """
    lines = read_text(path, kind).split("\n")
    header = [name.strip() for name in split_csv_line(lines[0].rstrip("\r")) or ()]
    missing = [name for name in required if name not in header]
    if missing:
        raise InputError(
            f"lacks the column(s) {', '.join(missing)}; a {kind} has the columns "
            f"{','.join(required)}",
            str(path),
        )
    for number, text in enumerate(lines[1:], start=2):
        line = text.rstrip("\r")
        if not line.strip():
            continue
        cells = split_csv_line(line)
        if cells is None or len(cells) > len(header):
            what = "has a stray quote" if cells is None else "has more cells than the header"
            raise InputError([Problem(f"line {number}", what)], str(path))
        padded = [*cells, *[""] * (len(header) - len(cells))]
        yield Row(number, {k: v.strip() for k, v in zip(header, padded, strict=True)})


def raise_problems(problems: Sequence[Problem], path: Path) -> None:
    """Raises `InputError` with the first problems, if there are any."""
    if not problems:
        return
    shown = list(problems[:_MOST_PROBLEMS])
    if len(problems) > len(shown):
        shown.append(Problem("", f"and {len(problems) - len(shown)} more bad rows"))
    raise InputError(shown, str(path))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes a CSV file so that readers see the old one or the new one, never a part.

    Raises:
        InputError: the folder cannot be written.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("w", encoding="utf-8", newline="") as file:
                file.write(buffer.getvalue())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Holds the lock of a table while it is read, changed and written.

    Raises:
        InputError: the folder cannot be written.
    """
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f".{target.name}.lock").open("w")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
