"""Databases of one file: opening them without harm to those of others, changing them safely.

A rollback journal, not a write-ahead log: the database stays one file that can be copied, a folder
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
from dataclasses import dataclass
from pathlib import Path

from srifty.errors import InputError

SQLITE_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
# Where the header holds the application's id: https://www.sqlite.org/fileformat.html, 1.3.
_APPLICATION_ID_AT = 68
# Others hold the lock for less than a second each; SQLite retries for that long.
_PATIENCE_S = 60.0

_WORDS = {
    sqlite3.SQLITE_BUSY: "another process has held it for {patience_s:.0f} s; try again",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check the path and its permissions",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full; nothing was changed",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy, or move it away and {remedy}",
    sqlite3.SQLITE_NOTADB: "is no database, so no {name}",
}


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """A kind of database file.

    Attributes:
        name: what such a file is, for messages.
        application_id: number in the file's header by which it is told from others' files.
        migrations: the statements that bring version i of the tables to i + 1. Never change a step
            that was released: add one.
        remedy: what to do where a file is damaged and there is no copy.
    """

    name: str
    application_id: int
    migrations: tuple[tuple[str, ...], ...]
    remedy: str = "begin anew"

    def connect(self, path: Path, *, create: bool) -> sqlite3.Connection:
        """Returns a connection to a file, brought to the newest version of its tables.

        It is open for writing where the file and its folder can be written, else for reading.

        Args:
            path: the file.
            create: whether to make it where there is none.

        Raises:
            InputError: there is no such file, it is none of this kind (it is left as it was), was
                written by a newer Srifty, or cannot be opened.
        """
        fresh = self._check_header(path, create=create)
        target = (
            path.resolve()
        )  # SQLite keeps its journal beside the file itself, not beside a link
        mode = "rw" if os.access(target, os.W_OK) and os.access(target.parent, os.W_OK) else "ro"
        if fresh and create:
            mode = "rwc"
        with self.explained(path):
            connection = sqlite3.connect(
                f"{target.as_uri()}?mode={mode}",
                uri=True,
                timeout=_PATIENCE_S,
                isolation_level=None,
            )
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                self._migrate(connection, path)
            except BaseException:
                connection.close()
                raise
        return connection

    @contextmanager
    def explained(self, path: Path) -> Generator[None]:
        """Turns what the disk, a lock or another process did to a file into an `InputError`."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            # The low byte is the kind of error, the rest its detail.
            words = _WORDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
            if words is None:
                raise
            words = words.format(name=self.name, remedy=self.remedy, patience_s=_PATIENCE_S)
            raise InputError(words, str(path)) from error

    def _check_header(self, path: Path, *, create: bool) -> bool:
        """Returns whether there is nothing in the file yet; `InputError` if it is none of ours.

        The bytes are read here because SQLite would roll a journal back before it tells.
        """
        name = self.name
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
        except FileNotFoundError:
            if create:
                return True
            raise InputError(f"there is no such file; a {name} was expected", str(path)) from None
        except OSError as error:
            raise InputError(f"cannot be opened: {error.strerror or error}", str(path)) from None
        except ValueError:  # pathlib's word for a NUL character in a name
            raise InputError("is no file name", repr(str(path))) from None
        if not header:
            return True
        if not header.startswith(SQLITE_MAGIC) or len(header) < _HEADER_BYTES:
            raise InputError(f"is no database, so no {name}; name another file", str(path))
        (application_id,) = struct.unpack_from(">I", header, _APPLICATION_ID_AT)
        if application_id != self.application_id:
            raise InputError(
                f"is a database of another program, no {name}; name another file", str(path)
            )
        return False

    def _migrate(self, connection: sqlite3.Connection, path: Path) -> None:
        if self._version(connection, path) == len(self.migrations):
            return
        with transaction(connection, writing=True):
            # Another process may have done it since.
            for version in range(self._version(connection, path), len(self.migrations)):
                if version == 0:
                    connection.execute(f"PRAGMA application_id = {self.application_id}")
                for statement in self.migrations[version]:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(self.migrations)}")

    def _version(self, connection: sqlite3.Connection, path: Path) -> int:
        with closing(connection.execute("PRAGMA user_version")) as cursor:
            (version,) = cursor.fetchone()
        if not 0 <= version <= len(self.migrations):
            raise InputError(
                f"was written by a newer Srifty (tables of version {version}, this one knows "
                f"{len(self.migrations)}); update Srifty, or name another file",
                str(path),
            )
        return int(version)


def is_database(path: Path) -> bool:
    """Returns whether a file is an SQLite database, by its first bytes; False if unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


@contextmanager
def transaction(
    connection: sqlite3.Connection, *, writing: bool, keep: bool = True
) -> Generator[None]:
    """Makes what is done inside happen at once or not at all.

    Args:
        connection: the open database.
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
