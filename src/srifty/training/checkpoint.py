"""Checkpoints as entries of a folder: written whole, checked by checksum, read without unpickling.

An entry holds its files and `manifest.json`, which lists their sizes and SHA-256 and is written
last; what it lists is all that is ever read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from srifty._torch import torch
from srifty.errors import InputError
from srifty.training.folder import Folder

MANIFEST = "manifest.json"
STATE = "state.pt"

_FORMAT = "srifty-checkpoint/1"
_ENTRY = re.compile(r"step-(\d{12})", re.ASCII)
_CHUNK_BYTES = 1 << 22
_MOST_MANIFEST_BYTES = 1 << 24

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose manifest was read.

    Attributes:
        step: the global step that training goes on with; as many were made.
        entry: its name in the folder.
        files: size in bytes and SHA-256 of each file.
        facts: what was said about the training when it was saved.
    """

    step: int
    entry: str
    files: Mapping[str, tuple[int, str]]
    facts: Mapping[str, Any]


def entry_of(step: int) -> str:
    """Returns the name of a step's entry; names sort as steps do."""
    return f"step-{step:012d}"


def write(
    folder: Folder,
    step: int,
    facts: Mapping[str, Any],
    files: Mapping[str, Callable[[BinaryIO], object]],
) -> None:
    """Writes a checkpoint; it is there as a whole and durable, or not at all.

    Args:
        folder: where.
        step: the global step that training will go on with.
        facts: what to say about the training; JSON values.
        files: what writes each file.

    Raises:
        OSError: the storage failed (or what else a writer raises).
    """
    entry = entry_of(step)
    folder.begin(entry)
    listed: dict[str, tuple[int, str]] = {}
    for name, fill in files.items():
        with folder.writing(entry, name) as file:
            hashed = _Hashed(file)
            fill(cast("BinaryIO", hashed))
        listed[name] = (hashed.size_bytes, hashed.digest)
    seal(folder, step, facts, listed)


def seal(
    folder: Folder, step: int, facts: Mapping[str, Any], files: Mapping[str, tuple[int, str]]
) -> None:
    """Writes the manifest of files that are written, and puts the checkpoint in place.

    Args:
        folder: where.
        step: the global step that training will go on with.
        facts: what to say about the training; JSON values.
        files: size in bytes and SHA-256 of each file.
    """
    body = {"format": _FORMAT, "step": step, "facts": dict(facts), "files": dict(files)}
    entry = entry_of(step)
    with folder.writing(entry, MANIFEST) as file:
        file.write(json.dumps(body | {"sha256": _digest_of(body)}, indent=1).encode())
    folder.commit(entry)


def digest_of_file(file: BinaryIO) -> tuple[int, str]:
    """Returns size in bytes and SHA-256 of what is left of a file."""
    digest = hashlib.sha256()
    size_bytes = 0
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
    return size_bytes, digest.hexdigest()


def steps_in(folder: Folder) -> list[int]:
    """Returns the steps of all entries that look like checkpoints, newest first."""
    found = [_ENTRY.fullmatch(name) for name in folder.entries()]
    return sorted((int(match[1]) for match in found if match), reverse=True)


def look(folder: Folder, step: int) -> Checkpoint:
    """Returns a checkpoint whose manifest is whole and whose files have the right sizes.

    Raises:
        InputError: it is damaged.
        OSError: the storage failed.
    """
    entry = entry_of(step)
    source = f"{folder.where}/{entry}"
    try:
        with folder.reading(entry, MANIFEST) as file:
            text = file.read(_MOST_MANIFEST_BYTES)
        body: Any = json.loads(text)
        claimed = body.pop("sha256")
        files = {name: (int(size), str(sha)) for name, (size, sha) in body["files"].items()}
        whole = claimed == _digest_of(body) and (body["format"], body["step"]) == (_FORMAT, step)
        # Nothing outside of the entry is read.
        whole &= not any("/" in name for name in files)
        facts: dict[str, Any] = dict(body["facts"])
    except FileNotFoundError:
        raise InputError(f"has no {MANIFEST}: it was not written to its end", source) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole, files, facts = False, {}, {}
    if not whole:
        raise InputError(f"{MANIFEST} is damaged", source)
    for name, (size_bytes, _) in files.items():
        try:
            found_bytes = folder.size_bytes(entry, name)
        except FileNotFoundError:
            raise InputError(f"{name} is missing", source) from None
        if found_bytes != size_bytes:
            raise InputError(
                f"{name} is damaged: {found_bytes} bytes, not the {size_bytes} written", source
            )
    return Checkpoint(step, entry, files, facts)


def check(folder: Folder, step: int) -> Checkpoint:
    """Returns a checkpoint all of whose bytes are as they were written.

    Raises:
        InputError: it is damaged.
        OSError: the storage failed.
    """
    found = look(folder, step)
    for name, written in found.files.items():
        with folder.reading(found.entry, name) as file:
            if digest_of_file(file) != written:
                raise InputError(
                    f"{name} is damaged: its SHA-256 is not the one written",
                    f"{folder.where}/{found.entry}",
                )
    return found


def newest(folder: Folder, *, below: int | None = None) -> Checkpoint | None:
    """Returns the newest checkpoint that is whole; damaged ones are passed over, with a warning.

    Args:
        folder: where.
        below: only checkpoints of earlier steps than this; None for all.
    """
    passed = 0
    for step in steps_in(folder):
        if below is not None and step >= below:
            continue
        try:
            found = check(folder, step)
        except (InputError, OSError) as error:
            _log.warning("a checkpoint is passed over: %s", error)
            passed += 1
            continue
        if passed:
            _log.warning("the newest whole checkpoint is that of step %d", step)
        return found
    return None


def read_state(folder: Folder, checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns the state of a checkpoint, on the CPU; nothing but tensors and plain values.

    Raises:
        InputError: it holds other objects, or none of this name.
    """
    source = f"{folder.where}/{checkpoint.entry}"
    if STATE not in checkpoint.files:
        raise InputError(f"has no {STATE}; it was saved from a sharded model", source)
    try:
        with folder.reading(checkpoint.entry, STATE) as file:
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(f"{STATE} cannot be read: {error}", source) from error


def prune(folder: Folder, keep: int) -> None:
    """Removes old checkpoints: those older than the newest `keep` that look whole."""
    whole = 0
    for step in steps_in(folder):
        if whole >= keep:
            folder.remove(entry_of(step))
            continue
        try:
            look(folder, step)
        except InputError:
            continue
        whole += 1


class _Hashed:
    """A file being written whose bytes are counted and hashed on their way."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Writes all of the data."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._digest.update(view)
        self.size_bytes += len(view)
        return len(view)

    def flush(self) -> None:
        """Passes on what was written."""
        self._file.flush()

    @property
    def digest(self) -> str:
        """SHA-256 of what was written, in hexadecimal digits."""
        return self._digest.hexdigest()


def _digest_of(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
