"""What a probe measures: message sizes, how many at once, how often. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from srifty.errors import InputError
from srifty.units import GIB, MIB, format_bytes, parse_bytes

DEFAULT_SIZES = "4B..512MiB"
_MOST_SIZE_BYTES = 64 * GIB
_MOST_CONCURRENT = 64


class ElementType(StrEnum):
    """What the messages are made of, by torch's names."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return 4 if self is ElementType.FLOAT32 else 2

    @property
    def log_name(self) -> str:
        """The name that nccl-tests has for it, so that samples of both compare."""
        return {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}[self.value]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid.

    Attributes:
        size_bytes: bytes that each rank contributes to one allreduce.
        concurrent: allreduces of that size issued at once, 1 or more.
    """

    size_bytes: int
    concurrent: int = 1

    @property
    def total_bytes(self) -> int:
        """Bytes that each rank contributes to all of them."""
        return self.size_bytes * self.concurrent

    def __str__(self) -> str:
        at_once = f" x {self.concurrent}" if self.concurrent > 1 else ""
        return f"{format_bytes(self.size_bytes)}{at_once}"


@dataclass(frozen=True, slots=True)
class Grid:
    """What to measure, and in how much time.

    Attributes:
        cells: each once, ascending by total bytes.
        element: element type of the messages.
        repeats: samples of each cell, 1 or more.
        warmup: untimed operations per cell before the first sample, 0 or more.
        budget_s: seconds for all cells together.
        long_s: seconds to repeat one large message for afterwards; 0 for not at all.
    """

    cells: tuple[Cell, ...]
    element: ElementType = ElementType.FLOAT32
    repeats: int = 5
    warmup: int = 2
    budget_s: float = 120.0
    long_s: float = 0.0


def make_cells(
    sizes_bytes: Sequence[int], concurrent: Sequence[int], element: ElementType
) -> tuple[Cell, ...]:
    """Returns every size with every concurrency, ascending by total bytes.

    Raises:
        InputError: a size that does not hold whole elements.
    """
    broken = [size for size in sizes_bytes if size % element.bytes]
    if broken:
        raise InputError(
            f"{format_bytes(broken[0])} does not hold whole {element.value} elements; write "
            f"multiples of {element.bytes}B",
            "--sizes",
        )
    cells = {Cell(size, count) for size in sizes_bytes for count in concurrent}
    return tuple(sorted(cells, key=lambda cell: (cell.total_bytes, cell.size_bytes)))


def parse_sizes(text: str) -> tuple[int, ...]:
    """Returns the sizes in bytes that `4B..512MiB` (by doubling) or `4KiB,1MiB` names, ascending.

    Raises:
        InputError: not such a text, or sizes below 1 B, above 64 GiB or in the wrong order.
    """
    try:
        if ".." in text:
            first, last = (parse_bytes(part) for part in text.split("..", 1))
            _require_size(first)
            _require_size(last)
            if first > last:
                raise ValueError(f"{text!r} runs downwards; write the smaller size first")
            sizes = [first << step for step in range((last // first).bit_length())]
        else:
            sizes = [parse_bytes(part) for part in text.split(",")]
            for size in sizes:
                _require_size(size)
    except ValueError as error:
        raise InputError(str(error), "--sizes") from None
    return tuple(sorted(set(sizes)))


def _require_size(size: int) -> None:
    if not 1 <= size <= _MOST_SIZE_BYTES:
        raise ValueError(f"a message has 1 B to {format_bytes(_MOST_SIZE_BYTES)}, not {size} B")


def parse_concurrent(text: str) -> tuple[int, ...]:
    """Returns the counts that `4`, `1..4` or `1,2,8` names, ascending.

    Raises:
        InputError: not such a text, or counts below 1 or above 64.
    """
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split("..", 1))
            counts = list(range(first, min(last, _MOST_CONCURRENT + 1) + 1))
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= count <= _MOST_CONCURRENT for count in counts):
        raise InputError(
            f"{text!r} names no numbers of transfers from 1 to {_MOST_CONCURRENT}; write 4, 1..4 "
            "or 1,2,8",
            "--concurrent",
        )
    return tuple(sorted(set(counts)))


def is_large(size_bytes: int) -> bool:
    """Whether bandwidth, not latency, decides a message's time: only such show a throttled link."""
    return size_bytes >= MIB
