"""Between samples and the rows of the store's tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from srifty.allreduce.samples import in_utc
from srifty.core.allreduce import AllreduceSample, Collective

JOINED = (
    "samples JOIN series ON series.id = samples.series_id "
    "JOIN allocations ON allocations.id = series.allocation_id"
)
_WHERE = ("cloud", "instance_type", "region", "zone", "source")
# An allocation is a set of VMs as the cloud handed it out; see `AllreduceSample.allocation`.
_PLACE = (*_WHERE, "name")
_SETUP = (
    "collective", "run", "gpu", "vms", "world_size", "library_version", "transport", "config",
    "dtype", "concurrent", "placement_group",
)  # fmt: skip
# Whether VMs shared a placement group, as a number.
PLACEMENT = {None: -1, False: 0, True: 1}
_PLACEMENT_OF = {number: placement for placement, number in PLACEMENT.items()}


def now() -> str:
    """Returns the present moment as the tables hold it."""
    return kept_moment(datetime.now(UTC))


def kept_moment(moment: datetime | None) -> str:
    """Returns a moment as the tables hold it: such texts order as the moments do.

    Raises:
        InputError: its year is none of 1 to 9999.
    """
    return "" if moment is None else in_utc(moment).isoformat(timespec="microseconds")


def sample_rows(
    connection: sqlite3.Connection, samples: Sequence[AllreduceSample]
) -> list[tuple[Any, ...]]:
    """Returns the rows of samples, whose allocations and series are in the tables afterwards.

    Returns:
        `(series_id, size_bytes, in_place, time_s, measured_at)` of each.
    """
    ids: dict[tuple[Any, ...], int] = {}
    rows: list[tuple[Any, ...]] = []
    for sample in samples:
        place = (*(getattr(sample, name) for name in _WHERE), sample.allocation[1])
        setup = (
            sample.collective.value,
            *(getattr(sample, name) for name in _SETUP[1:-1]),
            PLACEMENT[sample.placement_group],
        )
        key = (*place, *setup)
        if key not in ids:
            allocation_id = _id_of(connection, "allocations", _PLACE, place, stored_at=now())
            ids[key] = _id_of(
                connection, "series", ("allocation_id", *_SETUP), (allocation_id, *setup)
            )
        rows.append(
            (
                ids[key],
                sample.size_bytes,
                int(sample.in_place),
                float(sample.time_s),
                kept_moment(sample.measured_at),
            )
        )
    return rows


def shared_fields(connection: sqlite3.Connection) -> dict[int, dict[str, Any]]:
    """Returns by series what its samples have in common, as arguments of a sample."""
    names = (*_WHERE, *_SETUP)
    rows = connection.execute(
        f"SELECT series.id, {', '.join(names)} FROM series "
        "JOIN allocations ON allocations.id = series.allocation_id"
    )
    shared: dict[int, dict[str, Any]] = {}
    for series_id, *cells in rows:
        fields: dict[str, Any] = dict(zip(names, cells, strict=True))
        fields["collective"] = Collective(fields["collective"])
        fields["placement_group"] = _PLACEMENT_OF[fields["placement_group"]]
        shared[series_id] = fields
    return shared


def _id_of(
    connection: sqlite3.Connection,
    table: str,
    names: Sequence[str],
    values: Sequence[Any],
    **more: Any,
) -> int:
    """Returns the id of the row with these values, which is there afterwards.

    Args:
        connection: the store.
        table: its name.
        names: the columns that tell its rows apart.
        values: what they hold.
        more: what else a new row holds.
    """
    columns = ", ".join((*names, *more))
    marks = ", ".join("?" * (len(names) + len(more)))
    connection.execute(
        f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", (*values, *more.values())
    )
    found = f"SELECT id FROM {table} WHERE ({', '.join(names)}) = ({', '.join('?' * len(names))})"
    ((id_,),) = connection.execute(found, tuple(values)).fetchall()
    return int(id_)
