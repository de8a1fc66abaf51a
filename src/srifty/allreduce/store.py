"""The user's own samples: a database that remembers which file each came from."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from srifty.allreduce._database import STORE
from srifty.allreduce._tables import (
    JOINED,
    kept_moment,
    now,
    sample_rows,
    shared_fields,
)
from srifty.allreduce.records import Added, Forgotten, ImportedFile, SourceFile, StoredCurve
from srifty.allreduce.samples import require_storable
from srifty.core.allreduce import AllreduceSample, Collective, CurveKey
from srifty.database import transaction
from srifty.errors import InputError

_VARIABLE = "SRIFTY_DB"
# What a log that names no instance type is kept under; no type of any cloud begins like that.
UNNAMED = "unnamed-"
_LEAST_ID_DIGITS = 8


def store_path() -> Path:
    """Returns where the user's samples are: `SRIFTY_DB`, or the user's data folder."""
    named = os.environ.get(_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "srifty" / "srifty.db"


class SampleStore:
    """Samples in one SQLite file; safe under several processes and when one is killed.

    Every change is one transaction. Use it as a context manager, in one thread.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._connection = STORE.connect(path, create=create)

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> SampleStore:
        """Returns the store in a file.

        Args:
            path: the file.
            create: whether to make it, and its folder, where there is none.

        Raises:
            InputError: there is no such file, it is no store (it is left as it was), was written by
                a newer Srifty, or cannot be opened.
        """
        return cls(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def add(self, samples: Sequence[AllreduceSample], *, file: SourceFile) -> Added:
        """Adds the samples of a file, all of them or none; those it has already are not doubled.

        Samples of the same content that were stored for want of an instance type leave.

        Raises:
            InputError: a sample cannot be stored (see `require_storable`), or the file cannot be
                written.
        """
        if not samples:
            return Added(0, 0)
        for sample in samples:
            require_storable(sample)
        with STORE.explained(self.path), transaction(self._connection, writing=True):
            others = self._rows("SELECT id, key FROM files WHERE sha256 = ?", file.sha256)
            known = file.key in {key for _, key in others}
            file_id = self._file_id(file, len(samples))
            cells = sample_rows(self._connection, samples)
            before = self._connection.total_changes
            self._connection.executemany(
                "INSERT OR IGNORE INTO samples (series_id, size_bytes, in_place, time_s, "
                "measured_at) VALUES (?, ?, ?, ?, ?)",
                cells,
            )
            new = self._connection.total_changes - before
            self._connection.executemany(
                "INSERT OR IGNORE INTO holdings SELECT ?, id FROM samples WHERE series_id = ? AND "
                "size_bytes = ? AND in_place = ? AND time_s = ? AND measured_at = ?",
                ((file_id, *row) for row in cells),
            )
            replaced = 0
            if not any(sample.instance_type.startswith(UNNAMED) for sample in samples):
                replaced = self._drop_unnamed([id_ for id_, key in others if key != file.key])
            if new or replaced:
                self._mark_changed()
            left = self._rows("SELECT key FROM files WHERE sha256 = ? ORDER BY id", file.sha256)
        also = tuple(key[:12] for (key,) in left if key != file.key)
        return Added(new, len(samples) - new, replaced, known, also)

    def samples(
        self,
        *,
        collective: Collective | None = None,
        instance_types: Collection[str] | None = None,
    ) -> tuple[AllreduceSample, ...]:
        """Returns the samples in the order in which they were added.

        Args:
            collective: only these; None: all.
            instance_types: only of these types; None: of all.

        Raises:
            InputError: the file cannot be read, or was tampered with.
        """
        shared, rows = self._read(collective, instance_types)
        moments: dict[str, datetime | None] = {"": None}
        found: list[AllreduceSample] = []
        try:
            for series_id, size_bytes, in_place, time_s, measured_at in rows:
                if measured_at not in moments:
                    moments[measured_at] = datetime.fromisoformat(measured_at)
                found.append(
                    AllreduceSample(
                        size_bytes=size_bytes,
                        time_s=time_s,
                        in_place=bool(in_place),
                        measured_at=moments[measured_at],
                        **shared[series_id],
                    )
                )
        except (InputError, TypeError, ValueError) as error:
            message = f"holds a sample that makes no sense: {error}"
            raise InputError(message, str(self.path)) from None
        return tuple(found)

    def curves(self) -> tuple[StoredCurve, ...]:
        """Returns what there is of each curve, sorted by instance type."""
        with STORE.explained(self.path):
            rows = self._rows(
                "SELECT collective, instance_type, config, transport, library_version, "
                "group_concat(DISTINCT world_size), max(vms), min(size_bytes), max(size_bytes), "
                f"count(*), count(DISTINCT allocation_id), max(measured_at) FROM {JOINED} "
                "GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 1, 4, 5, 3"
            )
        return tuple(
            StoredCurve(
                CurveKey(Collective(collective), kind, config, transport, version),
                tuple(sorted(map(int, str(worlds).split(",")))),
                *numbers,
                newest=datetime.fromisoformat(newest) if newest else None,
            )
            for collective, kind, config, transport, version, worlds, *numbers, newest in rows
        )

    def files(self) -> tuple[ImportedFile, ...]:
        """Returns the imports, the oldest first."""
        with STORE.explained(self.path):
            rows = self._rows(
                "SELECT key, name, sha256, answers, imported_at, rows, (SELECT count(*) FROM "
                "holdings WHERE file_id = files.id) FROM files ORDER BY id"
            )
        return tuple(
            ImportedFile(
                key[:12], name, digest, json.loads(answers), datetime.fromisoformat(when), *counts
            )
            for key, name, digest, answers, when, *counts in rows
        )

    def fingerprint(self) -> str:
        """Returns a text that is equal only where the content is equal.

        Every change of the samples draws a new random one in the same transaction, so neither a
        kill nor a restored copy can make two contents share one; reading it costs one row.
        """
        with STORE.explained(self.path):
            ((fingerprint,),) = self._rows("SELECT fingerprint FROM store")
        return str(fingerprint)

    def forget(
        self,
        *,
        file: str | None = None,
        instance_type: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Removes the samples that all of the conditions hold for; without one, all samples.

        Args:
            file: only of this import: its id (or 8 digits of it), its name or the last part of
                that, or the digest of its content; a sample that another import holds too stays.
            instance_type: only of this type.
            before: only those measured before; undated ones stay.
            dry_run: say what would leave, and leave it.

        Raises:
            InputError: the store holds no such import or type, or cannot be written.
        """
        with (
            STORE.explained(self.path),
            transaction(self._connection, writing=True, keep=not dry_run),
        ):
            clauses, values = ["1"], list[Any]()
            of_file = ""
            if file is not None:
                ids = self._files_named(file)
                of_file = f"file_id IN ({', '.join(map(str, ids))})"
                clauses.append(f"samples.id IN (SELECT sample_id FROM holdings WHERE {of_file})")
            if instance_type is not None:
                self._require_type(instance_type)
                clauses.append("instance_type = ?")
                values.append(instance_type)
            undated = 0
            if before is not None:
                found = f"SELECT count(*) FROM {JOINED} WHERE {' AND '.join(clauses)}"
                ((undated,),) = self._rows(f"{found} AND measured_at = ''", *values)
                clauses.append("measured_at <> '' AND measured_at < ?")
                values.append(kept_moment(before))
            doomed = f"SELECT samples.id FROM {JOINED} WHERE {' AND '.join(clauses)}"
            self._connection.execute(
                f"DELETE FROM holdings WHERE {of_file or 1} AND sample_id IN ({doomed})", values
            )
            count, names = self._sweep()
            if count:
                self._mark_changed()
        return Forgotten(count, names, undated)

    def _read(
        self, collective: Collective | None, instance_types: Collection[str] | None
    ) -> tuple[dict[int, dict[str, Any]], list[Any]]:
        """Returns what the samples of each series share, and the rows of those series."""
        with STORE.explained(self.path), transaction(self._connection, writing=False):
            shared = {
                series_id: fields
                for series_id, fields in shared_fields(self._connection).items()
                if collective in (None, fields["collective"])
                and (instance_types is None or fields["instance_type"] in instance_types)
            }
            rows = self._rows(
                "SELECT series_id, size_bytes, in_place, time_s, measured_at FROM samples "
                "ORDER BY id"
            )
        return shared, [row for row in rows if row[0] in shared]

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._connection.execute(query, values).fetchall()

    def _mark_changed(self) -> None:
        self._connection.execute("UPDATE store SET fingerprint = lower(hex(randomblob(16)))")

    def _file_id(self, file: SourceFile, rows: int) -> int:
        self._connection.execute(
            "INSERT OR IGNORE INTO files (key, sha256, answers, name, imported_at, rows) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                file.key,
                file.sha256,
                json.dumps(dict(file.answers), sort_keys=True),
                file.name,
                now(),
                rows,
            ),
        )
        ((id_,),) = self._rows("SELECT id FROM files WHERE key = ?", file.key)
        return int(id_)

    def _drop_unnamed(self, file_ids: Sequence[int]) -> int:
        """Lets files go of samples without an instance type; returns how many left."""
        for file_id in file_ids:
            self._connection.execute(
                f"DELETE FROM holdings WHERE file_id = ? AND sample_id IN (SELECT samples.id FROM "
                f"{JOINED} WHERE substr(instance_type, 1, ?) = ?)",
                (file_id, len(UNNAMED), UNNAMED),
            )
        return self._sweep()[0] if file_ids else 0

    def _files_named(self, file: str) -> list[int]:
        """Returns the ids of the imports that a text names.

        Raises:
            InputError: there are none.
        """
        found = [
            id_
            for id_, key, digest, name in self._rows("SELECT id, key, sha256, name FROM files")
            if file in (digest, name, Path(name).name)
            or (len(file) >= _LEAST_ID_DIGITS and key.startswith(file))
        ]
        if not found:
            raise InputError(
                f"holds no import {file!r}; see srifty allreduce list --files", str(self.path)
            )
        return found

    def _require_type(self, name: str) -> None:
        if not self._rows("SELECT id FROM allocations WHERE instance_type = ?", name):
            raise InputError(
                f"holds no samples of {name!r}; see srifty allreduce list", str(self.path)
            )

    def _sweep(self) -> tuple[int, tuple[str, ...]]:
        """Removes what nothing holds; returns how many samples, and the names of the files."""
        count = self._connection.execute(
            "DELETE FROM samples WHERE id NOT IN (SELECT sample_id FROM holdings)"
        ).rowcount
        empty = "id NOT IN (SELECT file_id FROM holdings)"
        names = tuple(name for (name,) in self._rows(f"SELECT name FROM files WHERE {empty}"))
        self._connection.execute(f"DELETE FROM files WHERE {empty}")
        self._connection.execute(
            "DELETE FROM series WHERE id NOT IN (SELECT series_id FROM samples)"
        )
        self._connection.execute(
            "DELETE FROM allocations WHERE id NOT IN (SELECT allocation_id FROM series)"
        )
        return count, names
