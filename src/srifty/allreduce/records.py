"""What the store of samples takes and tells: files, curves, and what a change did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from srifty.core.allreduce import AllreduceSample, CurveKey


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Where samples come from: a file's content, with what the user said about it.

    Attributes:
        name: what it is called, for people.
        sha256: hexadecimal digest of its content.
        answers: what the file does not say itself, such as the world size; they are a part of what
            makes two imports the same.
    """

    name: str
    sha256: str
    answers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of_samples(cls, name: str, samples: Iterable[AllreduceSample]) -> SourceFile:
        """Returns what stands for samples that come from no file, such as a probe's."""
        digest = hashlib.sha256()
        for sample in samples:
            digest.update(repr(sample).encode())
        return cls(name, digest.hexdigest())

    @property
    def key(self) -> str:
        """What tells an import from others: a digest of content and answers."""
        answers = json.dumps(dict(self.answers), sort_keys=True)
        return hashlib.sha256(f"{self.sha256} {answers}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file whose samples the store holds.

    Attributes:
        id: names the import: of content and answers.
        name: what the file was called.
        sha256: hexadecimal digest of its content.
        answers: what the user said about it.
        imported_at: when, UTC.
        rows: how many rows it gave.
        rows_held: how many of them the store holds still.
    """

    id: str
    name: str
    sha256: str
    answers: Mapping[str, str]
    imported_at: datetime
    rows: int
    rows_held: int


@dataclass(frozen=True, slots=True)
class StoredCurve:
    """What the store holds of one curve.

    Attributes:
        key: what its samples have in common.
        world_sizes: numbers of ranks, ascending.
        most_vms: VMs of its largest world.
        least_bytes: its smallest message.
        most_bytes: its largest message.
        rows: how many samples.
        allocations: how many sets of VMs they were measured on.
        newest: when the newest of them was measured; None where no date is known.
    """

    key: CurveKey
    world_sizes: tuple[int, ...]
    most_vms: int
    least_bytes: int
    most_bytes: int
    rows: int
    allocations: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Added:
    """What came of adding samples.

    Attributes:
        new: how many the store did not have.
        already: how many it had.
        replaced: how many left because the same content was stored without an instance type.
        known: whether the same content was added with the same answers before.
        also: ids of imports of the same content with other answers.
    """

    new: int
    already: int
    replaced: int = 0
    known: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What left the store, or would.

    Attributes:
        samples: how many samples.
        files: names of the imports that have nothing left.
        undated: samples that the other conditions hold for, but not a limit in time: no date is
            known.
    """

    samples: int
    files: tuple[str, ...]
    undated: int = 0
