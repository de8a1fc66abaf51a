"""The log of a worker's steps: JSON lines, appended."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from srifty.errors import InputError

_KEPT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class StepLine:
    """What is said about a step.

    Attributes:
        step: the global step.
        at: when it ended, seconds since 1970.
        seconds: from the end of the step before, loading of the batch included.
        samples: of this worker.
        global_samples: of all workers.
        loss: of the global batch; None where the script's loss is not of this package, or the
            training broke off before it was known.
        exchange_s: what the exchange adds to this worker's computation, waiting for slower workers
            included; measured in some steps, None in the others.
    """

    step: int
    at: float
    seconds: float
    samples: int
    global_samples: int
    loss: float | None
    exchange_s: float | None = None


@dataclass(frozen=True, slots=True)
class StartLine:
    """What is said when a training begins or goes on.

    Attributes:
        start: the global step that it begins with.
        at: when, seconds since 1970.
        workers: how many there are.
    """

    start: int
    at: float
    workers: int


class ProgressLog:
    """Appends lines to a worker's file, each of them at once.

    Args:
        folder: of the files; is made if need be.
        rank: of the worker.

    Raises:
        InputError: the file cannot be written.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.path = log_path(folder, rank)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what was said stays said when the process is killed.
            self._file = self.path.open("ab", buffering=0)
            if self._file.tell() and not _ends_with_line(self.path):
                self._file.write(b"\n")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", str(self.path)) from None

    def append(self, line: StepLine | StartLine) -> None:
        """Writes one line."""
        self._file.write(json.dumps(asdict(line)).encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def log_path(folder: Path, rank: int) -> Path:
    """Returns where a worker's lines are."""
    return folder / f"worker-{rank:05d}.jsonl"


def last_lines(folder: Path, rank: int) -> tuple[list[int], int]:
    """Returns the steps of the latest starts, and the first step after all that were logged.

    Args:
        folder: of the files.
        rank: of the worker.
    """
    starts: list[int] = []
    after = 0
    for line in _tail(log_path(folder, rank)):
        if "start" in line:
            starts.append(int(line["start"]))
        elif "step" in line:
            after = int(line["step"]) + 1
    return starts, after


def _tail(path: Path) -> list[dict[str, Any]]:
    """Returns the last lines of a file that are whole; none where there is no file."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _KEPT_BYTES))
        lines = file.read().split(b"\n")
    found: list[dict[str, Any]] = []
    for line in lines:
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue  # the first may be cut, and any may be torn by a kill
        if isinstance(value, dict):
            found.append(cast("dict[str, Any]", value))
    return found


def _ends_with_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
