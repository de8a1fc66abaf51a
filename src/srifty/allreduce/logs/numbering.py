"""Numbers for tables and repeats, over a whole file."""

from __future__ import annotations

from collections.abc import Hashable

from srifty.core.allreduce import Collective


class Numbering:
    """Tells the tables of a file apart, and the repeats of one collective and world size."""

    def __init__(self) -> None:
        self._table = -1
        self._seen: dict[Hashable, Hashable] = {}
        self._runs: dict[tuple[Collective, int], dict[int, str]] = {}

    def begin(self) -> None:
        """Begins a table."""
        self._table += 1
        self._seen = {}

    def table(self, key: Hashable, figures: Hashable) -> int | None:
        """Returns the index of a row's table, or None where the row is an earlier one once more.

        Args:
            key: what a table has once: size, element type, reduction. One that comes again begins
                the next table, as when the tool goes through all sizes several times.
            figures: what was measured.
        """
        before = self._seen.get(key)
        if before == figures:
            return None
        if before is not None:
            self.begin()
        self._seen[key] = figures
        return self._table

    def run(self, collective: Collective, world_size: int, table: int) -> str:
        """Returns which repeat of a collective and world size a table is: `0`, `1`, ..."""
        runs = self._runs.setdefault((collective, world_size), {})
        return runs.setdefault(table, str(len(runs)))
