"""Where checkpoints lie: a local folder, or any URL that fsspec knows.

An entry is a set of files that is there as a whole or not at all. Locally its files are written
beside it, forced to the disk, and renamed into place; in object stores, which know no renaming,
whoever writes an entry writes the file that names all others last.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from srifty.errors import InputError

_UNFINISHED = ".unfinished-"
_CHUNK_BYTES = 1 << 22


class Folder(Protocol):
    """What checkpoints need of a storage; everything may raise `OSError`."""

    where: str

    def entries(self) -> list[str]:
        """Returns the names of all entries, sorted."""
        ...

    def begin(self, entry: str) -> None:
        """Makes ready for the files of a new entry; what an earlier try left is removed."""
        ...

    def writing(self, entry: str, name: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file of the entry that was begun; it is durable once it is closed."""
        ...

    def written(self, entry: str) -> list[str]:
        """Returns the names of the files of the entry that was begun."""
        ...

    def commit(self, entry: str) -> None:
        """Puts the entry that was begun in place."""
        ...

    def reading(self, entry: str, name: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file of an entry, which can be sought in."""
        ...

    def size_bytes(self, entry: str, name: str) -> int:
        """Returns the size of a file of an entry."""
        ...

    def remove(self, entry: str) -> None:
        """Removes an entry."""
        ...


class LocalFolder:
    """A folder of this machine, or one that is mounted.

    Args:
        path: is made if need be.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.path = path

    def entries(self) -> list[str]:
        """Returns the names of all entries, sorted."""
        if not self.path.is_dir():
            return []
        return sorted(p.name for p in self.path.iterdir() if not p.name.startswith("."))

    def begin(self, entry: str) -> None:
        """Makes ready for the files of a new entry; what an earlier try left is removed."""
        self.path.mkdir(parents=True, exist_ok=True)
        for left in self.path.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left)
        self.unfinished(entry).mkdir()

    def unfinished(self, entry: str) -> Path:
        """Returns where the files of the entry that was begun are written."""
        return self.path / f"{_UNFINISHED}{entry}"

    @contextmanager
    def writing(self, entry: str, name: str) -> Generator[BinaryIO]:
        """Opens a file of the entry that was begun; it is durable once it is closed."""
        with (self.unfinished(entry) / name).open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def written(self, entry: str) -> list[str]:
        """Returns the names of the files of the entry that was begun."""
        return sorted(path.name for path in self.unfinished(entry).iterdir())

    def commit(self, entry: str) -> None:
        """Puts the entry that was begun in place."""
        _force(self.unfinished(entry))
        place = self.path / entry
        if place.exists():
            # A damaged one of the same step: a folder with files cannot be renamed over.
            place.rename(self.path / f"{_UNFINISHED}old-{entry}")
        self.unfinished(entry).rename(place)
        _force(self.path)

    @contextmanager
    def reading(self, entry: str, name: str) -> Generator[BinaryIO]:
        """Opens a file of an entry, which can be sought in."""
        with (self.path / entry / name).open("rb") as file:
            yield file

    def size_bytes(self, entry: str, name: str) -> int:
        """Returns the size of a file of an entry."""
        return (self.path / entry / name).stat().st_size

    def remove(self, entry: str) -> None:
        """Removes an entry."""
        # First out of sight, at once: a half removed one would look damaged.
        hidden = self.path / f"{_UNFINISHED}removed-{entry}"
        (self.path / entry).rename(hidden)
        shutil.rmtree(hidden)


class RemoteFolder:
    """A folder in a storage that fsspec knows, such as an S3 bucket.

    Args:
        url: such as `s3://bucket/run1`.
        last: the file that is written last and removed first, without which an entry is none.

    Raises:
        InputError: fsspec, or its part for this kind of storage, is missing.
    """

    def __init__(self, url: str, last: str) -> None:
        self.where = url
        self._last = last
        try:
            core: Any = importlib.import_module("fsspec.core")
            self._system, self._path = core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"checkpoints at a URL need fsspec and its part for that kind of storage ({error}):"
                " pip install fsspec s3fs (or gcsfs, adlfs), or give a local folder",
                url,
            ) from None

    def entries(self) -> list[str]:
        """Returns the names of all entries, sorted."""
        self._system.invalidate_cache()
        try:
            found: list[str] = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def begin(self, entry: str) -> None:
        """Makes ready for the files of a new entry; what an earlier try left is removed."""
        if self._system.exists(self._at(entry)):
            self.remove(entry)
        self._system.makedirs(self._at(entry), exist_ok=True)

    @contextmanager
    def writing(self, entry: str, name: str) -> Generator[BinaryIO]:
        """Opens a file of the entry that was begun; it is durable once it is closed."""
        with self._system.open(self._at(entry, name), "wb") as file:
            yield file

    def written(self, entry: str) -> list[str]:
        """Returns the names of the files of the entry that was begun."""
        found: list[str] = self._system.ls(self._at(entry), detail=False)
        return sorted(path.rpartition("/")[2] for path in found)

    def commit(self, entry: str) -> None:
        """Puts the entry that was begun in place: its last file has just done so."""

    @contextmanager
    def reading(self, entry: str, name: str) -> Generator[BinaryIO]:
        """Opens a copy of a file of an entry, which can be sought in."""
        with tempfile.TemporaryFile() as copy:
            with self._system.open(self._at(entry, name), "rb") as file:
                shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            copy.seek(0)
            yield cast("BinaryIO", copy)

    def size_bytes(self, entry: str, name: str) -> int:
        """Returns the size of a file of an entry."""
        return int(self._system.size(self._at(entry, name)))

    def remove(self, entry: str) -> None:
        """Removes an entry."""
        if self._system.exists(self._at(entry, self._last)):
            self._system.rm_file(self._at(entry, self._last))
        self._system.rm(self._at(entry), recursive=True)

    def _at(self, *parts: str) -> str:
        return "/".join((self._path.rstrip("/"), *parts))


def open_folder(where: str | Path, last: str) -> Folder:
    """Returns the folder at a path or a URL.

    Args:
        where: a path, or a URL with a scheme (`s3://bucket/run1`).
        last: the file of each entry that is written last.

    Raises:
        InputError: see `RemoteFolder`.
    """
    text = str(where)
    if isinstance(where, Path) or "://" not in text:
        return LocalFolder(Path(where))
    return RemoteFolder(text, last)


def _force(folder: Path) -> None:
    """Forces the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
