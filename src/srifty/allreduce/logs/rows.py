"""Finding rows: a size, a count and an element type, wherever on a line they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from srifty.allreduce.logs.text import bare, before_message

# Bytes per element. `char` and `int` are what the first NCCL's own test called them.
ELEMENT_BYTES = {
    "char": 1,
    "int8": 1,
    "uint8": 1,
    "int": 4,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float16": 2,
    "fp16": 2,
    "bfloat16": 2,
    "bf16": 2,
    "float": 4,
    "float32": 4,
    "fp32": 4,
    "double": 8,
    "float64": 8,
    "fp64": 8,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "fp8e4m3": 1,
    "fp8e5m2": 1,
}
REDUCTIONS = ("sum", "prod", "max", "min", "avg", "mulsum", "none")
_COUNT = r"\d[\d,]*(?:\.\d+)?(?:[eE]\+?\d+)?"
_TYPE = "|".join(sorted(ELEMENT_BYTES, key=len, reverse=True))
_HEAD = re.compile(rf"(?<![\w.,+-])({_COUNT})[ \t|\xa0]+({_COUNT})[ \t|\xa0]+({_TYPE})(?![\w-])")
# A row of an unknown type is a row all the same: it has the figures of one.
_STRANGE_HEAD = re.compile(
    r"(?<![\w.,+-])(\d[\d,]*)[ \t|\xa0]+(\d[\d,]*)[ \t|\xa0]+([A-Za-z]\w*)(?=\s)"
)
_LEAST_FIGURES = 6
_HEADLESS = re.compile(rf"(?:{_COUNT}\s+)?(?:{_TYPE})\s")
_COUNTS_ONLY = re.compile(rf"\s*{_COUNT}(?:\s+{_COUNT})?\s*\Z")
_CELL = re.compile(
    r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?\Z|[Nn]/[Aa]\Z|[+-]?(?:nan|inf)\Z"
)
_CELL_START = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|N/A")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d\Z|\d\d:\d\d:\d\d\Z")
# An out-of-place half that was not measured is printed as 32 blanks.
_BLANK_HALF = 28


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells read from one place.

    Attributes:
        line: line number, from 1.
        texts: the cells.
        stray: the word that ended them, where it is no cell; empty at the end of the line.
    """

    line: int
    texts: tuple[str, ...]
    stray: str


@dataclass(slots=True)
class RawRow:
    """A row as it stands in the text, uninterpreted.

    Attributes:
        line: number of the line that it begins on, from 1.
        size: the size, as printed.
        count: the count of elements, as printed.
        dtype: the element type.
        redop: the reduction; empty where the row names none.
        cells: what follows on the line.
        blank_half: whether the first half is blank.
        pieces: what follows on later lines, in case the row was split.
        joined: whether its head was put together from two lines.
    """

    line: int
    size: str
    count: str
    dtype: str
    redop: str
    cells: Cells
    blank_half: bool = False
    joined: bool = False
    pieces: list[Cells] = field(default_factory=list["Cells"])


class RowFinder:
    """Finds the rows of a log, line after line."""

    def __init__(self) -> None:
        self._counts = ""
        self._counts_line = 0
        self._row: RawRow | None = None

    def rows(self, number: int, line: str) -> list[RawRow]:
        """Returns the rows that begin on a line; a line that goes on with one is added to it.

        Args:
            number: the line's number, from 1.
            line: its text.
        """
        heads = list(_HEAD.finditer(line))
        found: list[RawRow] = []
        if heads:
            ends = [head.start() for head in heads[1:]] + [len(line)]
            found = [
                _row(number, head, line[head.end() : end])
                for head, end in zip(heads, ends, strict=True)
            ]
        elif "CCL" not in line and (head := _STRANGE_HEAD.search(line)) is not None:
            row = _row(number, head, line[head.end() :])
            found = [row] if len(row.cells.texts) >= _LEAST_FIGURES else []
        if not found:
            return self._continued(number, line)
        self._counts, self._row = "", found[-1]
        return found

    def forget(self) -> None:
        """Ends the row in hand: what follows belongs to another table."""
        self._counts, self._row = "", None

    def _continued(self, number: int, line: str) -> list[RawRow]:
        content = bare(line)
        if not content or not (content[0].isdigit() or content[0] in "-NsmpafbdhciuT"):
            return []
        if self._counts and _HEADLESS.match(content):
            head = _HEAD.match(f"{self._counts} {content}")
            if head is not None:
                row = _row(number, head, f"{self._counts} {content}"[head.end() :])
                row.line, row.joined = self._counts_line, True
                self._counts, self._row = "", row
                return [row]
        own = before_message(content)
        if _COUNTS_ONLY.match(own):
            self._counts, self._counts_line = own.strip(), number
        if self._row is not None:
            words = own.replace("|", " ").split()
            row = self._row
            if words and words[0] in REDUCTIONS and not row.redop and not row.cells.texts:
                row.redop = words.pop(0)
            cells = _cells(number, words)
            if cells.texts and not cells.stray:
                row.pieces.append(cells)
        return []


def _row(number: int, head: re.Match[str], rest: str) -> RawRow:
    words = rest.replace("|", " ").split()
    redop = ""
    if words and words[0] in REDUCTIONS:
        redop = words.pop(0)
    return RawRow(
        line=number,
        size=head[1],
        count=head[2],
        dtype=head[3],
        redop=redop,
        cells=_cells(number, words),
        blank_half=" " * _BLANK_HALF in rest.rstrip(),
    )


def _cells(number: int, words: list[str]) -> Cells:
    """Returns the leading words that are cells; a message glued to the last one is cut off."""
    texts: list[str] = []
    stray = ""
    for word in words:
        if _CELL.match(word):
            texts.append(word)
        elif _STAMP.match(word):
            continue
        else:
            stray = word
            start = _CELL_START.match(word)
            if start is not None and (":" in word or "[" in word):
                texts.append(start[0])
            break
    return Cells(number, tuple(texts), stray)
