"""The local back end: a VM is an agent process that starts workers on this machine."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srifty.cloud.backend import (
    LaunchRequest,
    Prepared,
    VmState,
    VmWorkers,
    WorkerLines,
    WorkersStatus,
    World,
)
from srifty.cloud.clock import Clock
from srifty.cloud.failures import read_refusal
from srifty.cloud.local.launcher import LOOPBACK, Launcher
from srifty.cloud.local.links import check_links, read_link, sweep
from srifty.cloud.local.processes import VM_TAG, end_all, tagged
from srifty.cloud.local.requests import decide, request_of
from srifty.cloud.local.run_folder import (
    Entry,
    RunFolder,
    VmFolder,
    append_entry,
    pool_document,
    read_json,
    read_pool,
    vm_state,
    write_json,
)
from srifty.cloud.locks import holder
from srifty.core.events import Pool, VmEvent, VmEventKind
from srifty.core.scenario import Scenario
from srifty.errors import InputError

# Real seconds: what hangs, hangs in real time, whatever a run's clock says. A lost VM must be
# noticed within 15.
_LOST_AFTER_S = 10.0
# Real seconds that an agent has from its start to its first sign of life.
_START_PATIENCE_S = 15.0
# Real seconds that an agent has to end its VM before it is killed.
_END_PATIENCE_S = 5.0


class LocalBackend:
    """VMs that are processes of this machine.

    Args:
        folder: of the run; is made if need be. A back end that is made anew for the same folder
            goes on with what is there.
        clock: the run's.
        scenario: what the played cloud does.
        launcher: what starts the workers.
    """

    name = "local"

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        scenario: Scenario | None = None,
        *,
        launcher: Launcher = Launcher.TORCHRUN,
    ) -> None:
        self._run = RunFolder(folder.resolve())
        self._clock = clock
        self._scenario = scenario or Scenario()
        self._launcher = launcher
        # When this process started VMs' agents, and the agents that still run of those.
        self._started_s: dict[str, float] = {}
        self._agents: dict[str, int] = {}
        self._run.vms.mkdir(parents=True, exist_ok=True)
        self._run.progress.mkdir(exist_ok=True)
        self._run.heartbeat.touch()

    def prepare(self, request: LaunchRequest) -> Prepared:
        """Returns the launch as it would be sent; see `Backend`."""
        settings = request.settings
        if self._scenario.has_links:
            check_links()
        unset = [name for name in settings.secrets if name not in os.environ]
        if unset:
            raise InputError(
                f"secrets that are not set in this environment: {', '.join(unset)}; export them, "
                "or take them out of run.secrets"
            )
        workdir = Path(settings.workdir).resolve()
        if not workdir.is_dir():
            raise InputError(f"there is no folder {workdir}; name the code's folder in run.workdir")
        document = {
            "run_id": request.run_id,
            "tags": dict(request.tags()),
            "hard_end_s": request.hard_end_s,
            "silence_s": request.silence_s,
            "launcher": self._launcher.value,
            "workdir": str(workdir),
            "env": dict(settings.env),
            "secrets": list(settings.secrets),
            "not used here": {
                "image": settings.image,
                "setup": list(settings.setup),
                "subnet": settings.subnet,
            },
            "vms": [
                {
                    "vm": vm.vm,
                    "token": request.token(vm.vm),
                    "gpus": vm.gpus,
                    "usd_per_hour": vm.usd_per_hour,
                    **pool_document(vm.pool),
                }
                for vm in request.vms
            ],
        }
        return Prepared(self.name, document)

    def launch(self, prepared: Prepared) -> None:
        """Asks for the VMs; see `Backend`."""
        self._run.heartbeat.touch()
        for vm in prepared.document["vms"]:
            files = self._run.vm(vm["vm"])
            before = read_json(files.request)
            if before is None:
                self._ask(files, vm, prepared.document)
            elif before["token"] != vm["token"]:
                raise InputError(
                    f"{vm['vm']} was asked for before, by another request; name VMs once in a run"
                )
        self._look()

    def events(self, after: int) -> list[VmEvent]:
        """Returns what happened; see `Backend`."""
        self._run.heartbeat.touch()
        self._look()
        pools: dict[str, Pool] = {}
        events: list[VmEvent] = []
        for entry in self._run.entries()[after:]:
            if entry.vm not in pools:
                pools[entry.vm] = read_pool(request_of(self._run.vm(entry.vm)))
            events.append(
                VmEvent(
                    entry.at_s, entry.kind, entry.vm, pools[entry.vm], entry.failure, entry.detail
                )
            )
        return events

    def start_workers(self, world: World) -> None:
        """Starts a world; see `Backend`."""
        for vm in world.vms:
            gpus = request_of(self._run.vm(vm.vm))["gpus"]
            if vm.workers > gpus:
                raise InputError(f"{vm.vm} has {gpus} GPUs, so {vm.workers} workers cannot run")
        newest = read_json(self._run.world)
        if newest is not None and newest["generation"] >= world.generation:
            if newest["generation"] > world.generation:
                raise InputError(
                    f"generation {world.generation} is over; {newest['generation']} was started"
                )
            port = newest["port"]
        else:
            port = _free_port()
        write_json(
            self._run.world,
            {
                "generation": world.generation,
                "port": port,
                "vms": [vm.vm for vm in world.vms],
            },
        )
        link = read_link(request_of(self._run.vm(world.vms[0].vm))["link"])
        first = 0
        for node, vm in enumerate(world.vms):
            files = self._run.vm(vm.vm)
            request = request_of(files)
            write_json(
                files.world,
                {
                    "generation": world.generation,
                    "command": list(world.command),
                    "launcher": self._launcher.value,
                    "shares": world.shares,
                    "checkpoint": world.checkpoint or str(self._run.path / "checkpoints"),
                    "env": {**request["env"], **dict(world.env)},
                    "workdir": request["workdir"],
                    "pace_s": vm.pace_s,
                    "place": {
                        "generation": world.generation,
                        "node": node,
                        "nodes": len(world.vms),
                        "first_rank": first,
                        "workers": vm.workers,
                        "world_size": world.size,
                        "address": LOOPBACK if link is None else link.address,
                        "port": port,
                    },
                },
            )
            first += vm.workers

    def workers(self) -> list[VmWorkers]:
        """Returns the workers of the newest world; see `Backend`."""
        newest = read_json(self._run.world)
        if newest is None:
            return []
        generation: int = newest["generation"]
        found: list[VmWorkers] = []
        for name in newest["vms"]:
            files = self._run.vm(name)
            log = str(files.log(generation))
            said = read_json(files.workers)
            if holder(files.lock) is None:
                continue
            if said is None or said["generation"] != generation:
                found.append(VmWorkers(name, generation, WorkersStatus.STARTING, log=log))
            elif said["exit_code"] is None:
                found.append(VmWorkers(name, generation, WorkersStatus.RUNNING, log=log))
            else:
                found.append(
                    VmWorkers(name, generation, WorkersStatus.ENDED, said["exit_code"], log)
                )
        return found

    def stop_workers(self, *, save: bool) -> None:
        """Has the newest world end; see `Backend`."""
        newest = read_json(self._run.world)
        if newest is None:
            return
        if save:
            self._run.stop(newest["generation"]).touch()
            return
        for name in newest["vms"]:
            write_json(self._run.vm(name).kill, {"generation": newest["generation"]})

    def progress(self, after: Mapping[int, int]) -> list[WorkerLines]:
        """Returns what the workers logged; see `Backend`."""
        found: list[WorkerLines] = []
        for path in sorted(self._run.progress.glob("worker-*.jsonl")):
            rank = int(path.stem.removeprefix("worker-"))
            start = after.get(rank, 0)
            with path.open("rb") as file:
                file.seek(start)
                whole, _, _ = file.read().rpartition(b"\n")
            if whole:
                lines = whole.decode(errors="replace").split("\n")
                end = start + len(whole) + 1
                found.append(WorkerLines(rank, end, tuple(line for line in lines if line)))
        return found

    def terminate(self, vms: Sequence[str]) -> None:
        """Ends VMs; see `Backend`."""
        known = [self._run.vm(name) for name in vms]
        for files in known:
            request_of(files)  # all are of this run, or none ends
        for files in known:
            if not files.end.exists():
                files.end.touch()

    def reconcile(self) -> list[VmState]:
        """Returns every VM as it really is; see `Backend`."""
        self._look()
        entries = self._run.entries()
        return [
            vm_state(files, [entry for entry in entries if entry.vm == files.path.name])
            for files in self._run.all_vms()
            if files.request.exists()
        ]

    def _ask(self, files: VmFolder, vm: Mapping[str, Any], launch: Mapping[str, Any]) -> None:
        """Has the played cloud answer a request for a VM."""
        request = decide(vm, launch, self.reconcile(), self._scenario, self._clock, self._run.path)
        files.path.mkdir(exist_ok=True)
        write_json(files.request, request)
        self._answer(files, request)

    def _refuse(self, name: str, answer: str, now_s: float) -> None:
        refusal = read_refusal(answer)
        append_entry(
            self._run.journal,
            Entry(now_s, VmEventKind.FAILED, name, refusal.text, refusal.kind, now_s),
        )

    def _answer(self, files: VmFolder, request: Mapping[str, Any]) -> None:
        if request["refused"] is not None:
            self._refuse(request["vm"], request["refused"], request["asked_s"])
            return
        module = "srifty.cloud.local.agent"
        arguments = [sys.executable, "-m", module, str(self._run.path), files.path.name]
        with (files.path / "agent.log").open("ab") as log:
            # Not by subprocess, which complains of children that outlive their maker.
            self._started_s[files.path.name] = time.monotonic()
            self._agents[files.path.name] = os.posix_spawn(
                sys.executable,
                arguments,
                {**os.environ, VM_TAG: files.tag},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                ],
                setsid=True,
            )

    def _reap(self) -> None:
        """Has dead agents leave the table of processes."""
        for name, agent in list(self._agents.items()):
            pid, _ = os.waitpid(agent, os.WNOHANG)
            if pid:
                del self._agents[name]

    def _look(self) -> None:
        """Notes VMs that were lost or are heard of again, and ends those that do not end."""
        self._reap()
        last = {entry.vm: entry for entry in self._run.entries()}
        are_all_over = True
        for files in self._run.all_vms():
            newest = last.get(files.path.name)
            is_over = newest is not None and newest.stopped_s is not None
            if not is_over and files.request.exists():
                is_lost = newest is not None and newest.kind is VmEventKind.LOST
                self._look_at(files, is_lost=is_lost)
                are_all_over = False
        if last and are_all_over and self._scenario.has_links:
            sweep()

    def _look_at(self, files: VmFolder, *, is_lost: bool) -> None:
        name = files.path.name
        heard = files.pulse.exists()
        pulsed = (files.pulse if heard else files.request).stat().st_mtime
        pid = holder(files.lock)
        if pid is None:
            if not heard and name not in self._started_s:
                # What is written down was granted or refused, whoever was killed since. An agent
                # of theirs that is about to begin does no harm: the lock lets one live.
                self._answer(files, request_of(files))
            elif name not in self._agents:
                self._bury(files, pulsed)
            elif time.monotonic() - self._started_s[name] > _START_PATIENCE_S:
                end_all(tagged(files.tag))  # it hangs, and has not come as far as its lock
            return
        now = time.time()
        if files.end.exists() and now - files.end.stat().st_mtime > _END_PATIENCE_S:
            end_all(tagged(files.tag))
            return
        silent_s = now - pulsed
        if silent_s > _LOST_AFTER_S and not is_lost:
            detail = f"its agent has not been heard of for {silent_s:.0f} s"
            self._say(VmEventKind.LOST, name, detail)
        elif silent_s < _LOST_AFTER_S and is_lost:
            self._say(VmEventKind.RECOVERED, name, "its agent is heard of again")

    def _bury(self, files: VmFolder, pulsed: float) -> None:
        """Notes the end of a VM whose agent is gone, unless that said so itself."""
        name = files.path.name
        mine = [entry for entry in self._run.entries() if entry.vm == name]
        if any(entry.stopped_s is not None for entry in mine):
            return
        request = request_of(files)
        end_all(tagged(files.tag))
        heard_s = [request["asked_s"], *(entry.at_s for entry in mine)]
        stopped_s = max(self._clock.at_s(pulsed), *heard_s)
        if files.end.exists():
            self._say(VmEventKind.TERMINATED, name, "as the run asked", stopped_s=stopped_s)
        else:
            self._say(VmEventKind.LOST, name, "its agent is gone", stopped_s=stopped_s)

    def _say(
        self, kind: VmEventKind, name: str, detail: str, *, stopped_s: float | None = None
    ) -> None:
        now_s = self._clock.now_s()
        append_entry(self._run.journal, Entry(now_s, kind, name, detail, stopped_s=stopped_s))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
