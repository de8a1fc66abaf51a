"""What a reader of measurements did not take, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class DroppedRow:
    """A row of a file that was not taken; they order by line.

    Attributes:
        line: its line, from 1.
        reason: why not, and what would be right.
    """

    line: int
    reason: str
