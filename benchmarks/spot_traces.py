"""Public spot traces as step functions: how many VMs a pool can hold, over time."""

from __future__ import annotations

import bisect
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Trace:
    """How many spot VMs can be held.

    Attributes:
        name: collection, zone and device.
        vms: VMs that a job on this trace asks for.
        times_s: when the number changes, ascending, the first at 0.
        capacity: VMs that can be held from then on.
        end_s: where the trace ends.
    """

    name: str
    vms: int
    times_s: tuple[float, ...]
    capacity: tuple[int, ...]
    end_s: float

    def at(self, time_s: float) -> int:
        """Returns VMs that can be held at a time."""
        return self.capacity[bisect.bisect_right(self.times_s, time_s) - 1]

    def next_change_s(self, time_s: float) -> float:
        """Returns when that number changes next; the end of time after the last change."""
        index = bisect.bisect_right(self.times_s, time_s)
        return self.times_s[index] if index < len(self.times_s) else float("inf")

    def inverted(self) -> Trace:
        """Returns the trace under the other reading: 1 says that no VM can be had."""
        return Trace(
            self.name, self.vms, self.times_s, tuple(1 - c for c in self.capacity), self.end_s
        )


def read_traces(folder: Path, *, cluster: int = 16) -> list[Trace]:
    """Returns all traces.

    Args:
        folder: where the two files lie.
        cluster: VMs that a job on the traces of whole clusters asks for.
    """
    return [
        *_ticked(folder / "skypilot_spot_traces_rle.csv"),
        *_node_events(folder / "bamboo_node_events.csv", cluster),
    ]


def _ticked(path: Path) -> Iterator[Trace]:
    """Yields the run-length coded traces."""
    runs: dict[tuple[str, ...], list[tuple[float, float, int]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in ("kind", "nodes", "collection", "zone", "device"))
            gap_s = float(row["gap_seconds"])
            start_s, length_s = int(row["start_tick"]) * gap_s, int(row["ticks"]) * gap_s
            runs.setdefault(key, []).append((start_s, length_s, int(row["available"])))
    for (kind, nodes, collection, zone, device), own in runs.items():
        own.sort()
        yield Trace(
            f"{collection} {zone} {device} ({kind})",
            int(nodes),
            tuple(start_s - own[0][0] for start_s, _, _ in own),
            tuple(available for _, _, available in own),
            own[-1][0] + own[-1][1] - own[0][0],
        )


def _node_events(path: Path, cluster: int) -> Iterator[Trace]:
    """Yields the traces that say when which node came and went."""
    sizes: dict[str, list[tuple[float, int]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            own = sizes.setdefault(row["trace"], [(0.0, 0)])
            change = 1 if row["event"] == "add" else -1
            own.append((float(row["time_ms"]) / 1e3, own[-1][1] + change))
    for name, own in sizes.items():
        last = dict(own)  # of several changes at one moment, the last counts
        yield Trace(f"bamboo {name}", cluster, tuple(last), tuple(last.values()), max(last))
