"""Tables, and the drawings that each have one."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from srifty.report.quantities import Quantity

Cell = Quantity | str


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        heading: what stands above it.
        is_number: whether it is set flush right.
    """

    heading: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row.

    Attributes:
        cells: one for each column.
        is_marked: whether it is the one that all others are compared with.
    """

    cells: tuple[Cell, ...]
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        caption: what it says, for whoever cannot see it beside its drawing.
        columns: at least one.
        rows: in order.
        total: a last row that sums the others up; None: there is none.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: Row | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a drawing's key.

    Attributes:
        shape: how it is drawn: `line`, `plain`, `dash`, `forecast`, `dot`, `ring`, `diamond`,
            `hollow`, `tick`, `box`, `band`.
        tone: name of its colour.
        label: what it stands for.
    """

    shape: str
    tone: str
    label: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its table.

    Attributes:
        name: of the drawing, for the page's own links.
        caption: what it shows, in a sentence.
        wide: SVG for wide pages.
        narrow: SVG for narrow ones.
        keys: what its lines and marks stand for.
        table: the same as numbers.
    """

    name: str
    caption: str
    wide: Markup
    narrow: Markup
    keys: tuple[Key, ...]
    table: Table


def columns(*headings: str) -> tuple[Column, ...]:
    """Returns columns; a heading that begins with `#` is one of numbers."""
    return tuple(Column(text.removeprefix("#"), text.startswith("#")) for text in headings)
