"""The file of the sample store: its tables, and opening it without harm to files of others.

A rollback journal, not a write-ahead log: the store stays one file that can be copied, a folder
that cannot be written is enough to read it, and a process that is killed leaves a journal that the
next one rolls back. What a write-ahead log would add, readers that never wait, is worth little
here: a write lasts well under a second. Full synchronisation (SQLite's default) makes a commit
survive a power cut too.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from srifty.errors import InputError

KIND = "store of allreduce samples"
SQLITE_MAGIC = b"SQLite format 3\x00"
_APPLICATION_ID = 0x53726674  # "Srft"
_HEADER_BYTES = 100
# Where the header holds the application's id: https://www.sqlite.org/fileformat.html, 1.3.
_APPLICATION_ID_AT = 68
# Others hold the lock for less than a second each; SQLite retries for that long.
_PATIENCE_S = 60.0

# Step i brings version i to i + 1. Never change a step that was released: add one.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {_APPLICATION_ID}",
        # A token of its own for every content the store ever had: see SampleStore.fingerprint.
        "CREATE TABLE store (fingerprint TEXT NOT NULL)",
        "INSERT INTO store VALUES (lower(hex(randomblob(16))))",
        """CREATE TABLE files (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            sha256 TEXT NOT NULL,
            answers TEXT NOT NULL,
            name TEXT NOT NULL,
            imported_at TEXT NOT NULL,
            rows INTEGER NOT NULL)""",
        """CREATE TABLE allocations (
            id INTEGER PRIMARY KEY,
            cloud TEXT NOT NULL,
            instance_type TEXT NOT NULL,
            region TEXT NOT NULL,
            zone TEXT NOT NULL,
            source TEXT NOT NULL,
            name TEXT NOT NULL,
            stored_at TEXT NOT NULL,
            UNIQUE (cloud, instance_type, region, zone, source, name))""",
        # placement_group: -1 where unknown, since a NULL would be equal to no other.
        """CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            allocation_id INTEGER NOT NULL REFERENCES allocations,
            collective TEXT NOT NULL,
            run TEXT NOT NULL,
            gpu TEXT NOT NULL,
            vms INTEGER NOT NULL,
            world_size INTEGER NOT NULL,
            library_version TEXT NOT NULL,
            transport TEXT NOT NULL,
            config TEXT NOT NULL,
            dtype TEXT NOT NULL,
            concurrent INTEGER NOT NULL,
            placement_group INTEGER NOT NULL,
            UNIQUE (allocation_id, collective, run, gpu, vms, world_size, library_version,
                    transport, config, dtype, concurrent, placement_group))""",
        # measured_at: in UTC; empty where unknown, for the same reason.
        """CREATE TABLE samples (
            id INTEGER PRIMARY KEY,
            series_id INTEGER NOT NULL REFERENCES series,
            size_bytes INTEGER NOT NULL,
            in_place INTEGER NOT NULL,
            time_s REAL NOT NULL,
            measured_at TEXT NOT NULL,
            UNIQUE (series_id, size_bytes, in_place, time_s, measured_at))""",
        # Which files hold a sample: it leaves with the last of them.
        """CREATE TABLE holdings (
            file_id INTEGER NOT NULL REFERENCES files,
            sample_id INTEGER NOT NULL REFERENCES samples,
            PRIMARY KEY (file_id, sample_id)) WITHOUT ROWID""",
        "CREATE INDEX holders ON holdings (sample_id)",
    ),
)

_WORDS = {
    sqlite3.SQLITE_BUSY: f"another process has held it for {_PATIENCE_S:.0f} s; try again",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and its permissions",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full; nothing was changed",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy, or move it away and import again",
    sqlite3.SQLITE_NOTADB: f"is no database, so no {KIND}",
}


def is_database(path: Path) -> bool:
    """Returns whether a file is an SQLite database, by its first bytes; False if unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Returns a connection to a store, brought to the newest version of its tables.

    It is open for writing where the file and its folder can be written, else for reading.

    Args:
        path: the store's file.
        create: whether to make it where there is none.

    Raises:
        InputError: there is no such file, it is none of ours (it is left as it was), was written by
            a newer Srifty, or cannot be opened.
    """
    fresh = _check_header(path, create=create)
    target = path.resolve()  # SQLite keeps its journal beside the file itself, not beside a link
    mode = "rw" if os.access(target, os.W_OK) and os.access(target.parent, os.W_OK) else "ro"
    if fresh and create:
        mode = "rwc"
    with explained(path):
        connection = sqlite3.connect(
            f"{target.as_uri()}?mode={mode}",
            uri=True,
            timeout=_PATIENCE_S,
            isolation_level=None,
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(
    connection: sqlite3.Connection, *, writing: bool, keep: bool = True
) -> Generator[None]:
    """Makes what is done inside happen at once or not at all.

    Args:
        connection: the open store.
        writing: whether to take the writer's lock, at the start: two readers that both turn into
            writers half-way would block each other.
        keep: False undoes what was done: a rehearsal.
    """
    connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
    try:
        yield
        connection.execute("COMMIT" if keep else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Turns what the disk, a lock or another process did to a store into an `InputError`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # The low byte is the kind of error, the rest its detail.
        words = _WORDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if words is None:
            raise
        raise InputError(words, str(path)) from error


def _check_header(path: Path, *, create: bool) -> bool:
    """Returns whether there is nothing in the file yet; raises `InputError` if it is none of ours.

    The bytes are read here because SQLite would roll a journal back before it tells.
    """
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        if create:
            return True
        raise InputError(f"there is no such file; a {KIND} was expected", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror or error}", str(path)) from None
    except ValueError:  # pathlib's word for a NUL character in a name
        raise InputError("is no file name", repr(str(path))) from None
    if not header:
        return True
    if not header.startswith(SQLITE_MAGIC) or len(header) < _HEADER_BYTES:
        raise InputError(f"is no database, so no {KIND}; name another file", str(path))
    (application_id,) = struct.unpack_from(">I", header, _APPLICATION_ID_AT)
    if application_id != _APPLICATION_ID:
        raise InputError(
            f"is a database of another program, no {KIND}; name another file", str(path)
        )
    return False


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) == len(_MIGRATIONS):
        return
    with transaction(connection, writing=True):
        # Another process may have done it since.
        for version in range(_version(connection, path), len(_MIGRATIONS)):
            for statement in _MIGRATIONS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        (version,) = cursor.fetchone()
    if not 0 <= version <= len(_MIGRATIONS):
        raise InputError(
            f"was written by a newer Srifty (tables of version {version}, this one knows "
            f"{len(_MIGRATIONS)}); update Srifty, or name another file",
            str(path),
        )
    return int(version)
