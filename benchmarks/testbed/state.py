"""What a bed has made, on disk before it is made, so that whoever comes later can remove it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.testbed.procfs import ProcessId, process_id

STATE = Path("/run/srifty-testbed")
NAMESPACES = Path("/run/netns")
PREFIX = "sriftybed-"


@dataclass(frozen=True)
class Record:
    """A bed as its file tells it.

    Attributes:
        bed: name of the bed; its namespaces' names begin with it.
        driver: the process that made it and takes it down.
        processes: those started inside it, their own children not among them.
    """

    bed: str
    driver: ProcessId
    processes: tuple[ProcessId, ...] = ()

    @property
    def path(self) -> Path:
        """The record's file."""
        return STATE / f"{self.bed}.json"

    def write(self) -> None:
        """Puts the record in its file, whole or not at all."""
        content = {
            "driver": [self.driver.pid, self.driver.started_ticks],
            "processes": [[p.pid, p.started_ticks] for p in self.processes],
        }
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(content))
        partial.replace(self.path)


@contextmanager
def locked() -> Generator[int]:
    """Nobody else makes or removes beds meanwhile.

    Yields the lock's descriptor: a child that inherits it keeps the lock, should this process be
    killed while the child is still making something.
    """
    STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (STATE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def new_record() -> Record:
    """The record of a bed that this process is about to build."""
    driver = process_id(os.getpid())
    assert driver is not None  # this process is there
    return Record(f"{PREFIX}{secrets.token_hex(3)}", driver)


def records() -> list[Record]:
    """Every bed with a file, those whose driver has died included.

    Raises:
        ValueError: a file is not what `Record.write` writes; says which.
    """
    found: list[Record] = []
    for path in sorted(STATE.glob(f"{PREFIX}*.json")):
        try:
            content = json.loads(path.read_text())
            driver, *processes = (
                ProcessId(int(pid), int(ticks))
                for pid, ticks in [content["driver"], *content["processes"]]
            )
        except FileNotFoundError:
            continue  # taken down meanwhile
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} cannot be read ({error}); remove the file") from error
        found.append(Record(path.stem, driver, tuple(processes)))
    return found


def namespaces(prefix: str = PREFIX) -> list[str]:
    """Names of the network namespaces that begin so."""
    return sorted(path.name for path in NAMESPACES.glob(f"{prefix}*"))
