"""The folder of a local run: what the controller's side and the agents tell each other.

Everything is a small file that is replaced at once or appended to, so that a process killed at any
point leaves nothing in part. Which side writes what stands at each name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from srifty.cloud.backend import VmState, VmStatus
from srifty.core.events import LaunchFailure, Pool, VmEventKind
from srifty.core.offers import Location, Market
from srifty.core.scenario import Act, Happening


@dataclass(frozen=True, slots=True)
class VmFolder:
    """The files of one VM.

    Attributes:
        path: the folder; its name is the VM's.
    """

    path: Path

    @property
    def tag(self) -> str:
        """What the VM's processes carry in their environment; no other VM has it."""
        return str(self.path)

    @property
    def request(self) -> Path:
        """What was asked for and how the VM fares (controller); there before the agent starts."""
        return self.path / "request.json"

    @property
    def lock(self) -> Path:
        """Locked by the agent for as long as it lives; holds its process id."""
        return self.path / "agent.lock"

    @property
    def pulse(self) -> Path:
        """Touched by the agent every second."""
        return self.path / "pulse"

    @property
    def end(self) -> Path:
        """That the VM is to end (controller)."""
        return self.path / "end"

    @property
    def world(self) -> Path:
        """The VM's part of the newest world (controller)."""
        return self.path / "world.json"

    @property
    def kill(self) -> Path:
        """The generation whose workers are to be killed (controller)."""
        return self.path / "kill.json"

    @property
    def workers(self) -> Path:
        """What the workers do (agent)."""
        return self.path / "workers.json"

    @property
    def pace(self) -> Path:
        """Real seconds that a step takes at least (agent); read by the workers."""
        return self.path / "pace.json"

    def log(self, generation: int) -> Path:
        """What the workers of a generation printed."""
        return self.path / f"workers-{generation}.log"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of a run.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def journal(self) -> Path:
        """All events: one JSON line each, appended by agents and by the controller."""
        return self.path / "journal.jsonl"

    @property
    def heartbeat(self) -> Path:
        """Touched by the controller."""
        return self.path / "heartbeat"

    @property
    def progress(self) -> Path:
        """Folder of the workers' logs of steps."""
        return self.path / "progress"

    @property
    def world(self) -> Path:
        """The newest world (controller)."""
        return self.path / "world.json"

    @property
    def vms(self) -> Path:
        """Folder of the VMs' folders."""
        return self.path / "vms"

    def stop(self, generation: int) -> Path:
        """The file whose being there asks a generation's workers to save and stop."""
        return self.path / f"stop-{generation}"

    def vm(self, name: str) -> VmFolder:
        """Returns the files of a VM."""
        return VmFolder(self.vms / name)

    def entries(self) -> list[Entry]:
        """Returns the journal's lines, in order."""
        return read_entries(self.journal)

    def all_vms(self) -> list[VmFolder]:
        """Returns the VMs that were asked for, by name."""
        if not self.vms.exists():
            return []
        return [VmFolder(path) for path in sorted(self.vms.iterdir()) if path.is_dir()]


def write_json(path: Path, document: object) -> None:
    """Replaces a file at once."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(document), encoding="utf-8")
    beside.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Returns what `write_json` wrote; None where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return cast("dict[str, Any]", json.loads(text))


def pool_document(pool: Pool) -> dict[str, Any]:
    """Returns a pool as JSON values."""
    return {
        "instance_type": pool.instance_type,
        "region": pool.location.region,
        "zone": pool.location.zone,
        "market": pool.market.value,
    }


def read_pool(document: Mapping[str, Any]) -> Pool:
    """Returns the pool that `pool_document` described."""
    return Pool(
        document["instance_type"],
        Location(document["region"], document["zone"]),
        Market(document["market"]),
    )


def happening_document(what: Happening) -> dict[str, Any]:
    """Returns a happening as JSON values."""
    return asdict(what)


def read_happening(document: dict[str, Any]) -> Happening:
    """Returns the happening that `happening_document` described."""
    fields = dict(document)
    return Happening(Act(fields.pop("act")), **fields)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal.

    Attributes:
        at_s: seconds since the command.
        kind: what happened.
        vm: to which VM.
        detail: in words.
        failure: why a launch failed.
        stopped_s: since when the VM is no longer there; None: it is.
    """

    at_s: float
    kind: VmEventKind
    vm: str
    detail: str = ""
    failure: LaunchFailure | None = None
    stopped_s: float | None = None


def append_entry(journal: Path, entry: Entry) -> None:
    """Appends a line with a single write, which no other process's write can fall into."""
    line = json.dumps(
        {
            "at_s": entry.at_s,
            "kind": entry.kind.value,
            "vm": entry.vm,
            "detail": entry.detail,
            "failure": entry.failure and entry.failure.value,
            "stopped_s": entry.stopped_s,
        }
    )
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # A kill may tear a line: the next one then begins anew, and the torn one is no JSON.
        os.write(descriptor, b"\n" + line.encode() + b"\n")
    finally:
        os.close(descriptor)


def read_entries(journal: Path) -> list[Entry]:
    """Returns the journal's lines, in order."""
    if not journal.exists():
        return []
    entries: list[Entry] = []
    for line in journal.read_bytes().split(b"\n")[:-1]:
        try:
            fields: Any = json.loads(line)
        except ValueError:
            continue  # empty, or torn by a kill
        entries.append(
            Entry(
                fields["at_s"],
                VmEventKind(fields["kind"]),
                fields["vm"],
                fields["detail"],
                None if fields["failure"] is None else LaunchFailure(fields["failure"]),
                fields["stopped_s"],
            )
        )
    return entries


def vm_state(files: VmFolder, entries: Sequence[Entry]) -> VmState:
    """Returns what a VM's events amount to."""
    running_s = stopped_s = None
    status = VmStatus.BOOTING
    taken_back = False
    for entry in entries:
        if entry.kind is VmEventKind.LAUNCHED:
            running_s, status = entry.at_s, VmStatus.RUNNING
        elif entry.kind is VmEventKind.LOST:
            status = VmStatus.LOST
        elif entry.kind is VmEventKind.RECOVERED:
            status = VmStatus.BOOTING if running_s is None else VmStatus.RUNNING
        taken_back |= entry.kind is VmEventKind.PREEMPTED
        if entry.kind is VmEventKind.FAILED:
            status = VmStatus.FAILED
        elif entry.stopped_s is not None:
            stopped_s, status = entry.stopped_s, VmStatus.GONE
    return VmState(
        files.path.name,
        read_pool(json.loads(files.request.read_text(encoding="utf-8"))),
        status,
        running_s,
        stopped_s,
        taken_back,
    )
