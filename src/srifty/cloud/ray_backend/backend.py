"""The ray back end: VMs are nodes of a Ray cluster, each with an agent of ours."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from srifty.cloud.local.requests import request_of
from srifty.cloud.local.run_folder import (
    Entry,
    RunFolder,
    VmFolder,
    append_entry,
    read_json,
    read_pool,
    vm_state,
    write_json,
)
from srifty.cloud.ray_backend.agent import Orders, Report
from srifty.cloud.ray_backend.launch_failures import refusals, unplaced
from srifty.cloud.ray_backend.mirror import Mirror
from srifty.cloud.ray_backend.requests import Nodes, agent_setup, request_document
from srifty.cloud.ray_backend.session import Answer, RaySession, Silence
from srifty.cloud.ray_backend.watchdog import HEARD, leave_sign
from srifty.core.events import LaunchFailure, VmEvent, VmEventKind
from srifty.errors import InputError

# Real seconds: what hangs, hangs in real time, whatever a run's clock says. A lost VM must be
# noticed within 15.
_LOST_AFTER_S = 10.0
_LOOK_EVERY_S = 0.2
# Who has not answered for so long is not waited for: logs can be fetched later.
_FRESH_S = 3.0


class RayBackend:
    """VMs that are nodes of a Ray cluster.

    Args:
        folder: of the run, on the controller's machine; a back end that is made anew for the same
            folder goes on with what is there.
        clock: the run's.
        session: the connection to the cluster.
        nodes: where the cluster's nodes come from.
    """

    name = "ray"

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        session: RaySession,
        nodes: Nodes,
    ) -> None:
        self._run = RunFolder(folder.resolve())
        self._clock = clock
        self._session = session
        self._nodes = nodes
        self._run.vms.mkdir(parents=True, exist_ok=True)
        self._mirror = Mirror(self._run, session)
        self._heard: dict[str, float] = {}
        self._reports: dict[str, Report] = {}
        self._noticed: set[str] = set()
        self._looked = 0.0

    def prepare(self, request: LaunchRequest) -> Prepared:
        """Returns the launch as it would be sent; see `Backend`."""
        settings = request.settings
        unset = [name for name in settings.secrets if name not in os.environ]
        if unset:
            raise InputError(
                f"secrets that are not set in this environment: {', '.join(unset)}; export them, "
                "or take them out of run.secrets"
            )
        if settings.checkpoint is None and (self._nodes.are_rented or not self._is_one_host()):
            raise InputError(
                "the run's VMs share no folder: say in run.checkpoint where all of them can keep "
                "checkpoints, such as s3://bucket/run1"
            )
        return Prepared(self.name, request_document(request, self._nodes))

    def launch(self, prepared: Prepared) -> None:
        """Asks for the VMs; see `Backend`."""
        document = prepared.document
        for vm in document["vms"]:
            files = self._run.vm(vm["vm"])
            before = read_json(files.request)
            if before is not None:
                if before["token"] != vm["token"]:
                    raise InputError(
                        f"{vm['vm']} was asked for before, by another request; name VMs once in a "
                        "run"
                    )
                continue
            files.path.mkdir(exist_ok=True)
            write_json(
                files.request,
                {
                    **vm,
                    "asked_unix_s": time.time(),
                    "env": document["env"],
                    "secrets": document["secrets"],
                    "setup": agent_setup(vm, document, self._nodes, self._run, self._clock),
                },
            )
            if self._nodes.lacks(vm["node_type"]):
                text = (
                    f"the cluster's file has no node type {vm['node_type']}; write it anew "
                    "(--cluster-file) and give it to ray up"
                )
                self._fail(vm["vm"], LaunchFailure.UNSUPPORTED, text)
        self._look()

    def events(self, after: int) -> list[VmEvent]:
        """Returns what happened; see `Backend`."""
        self._look()
        events: list[VmEvent] = []
        for entry in self._run.entries()[after:]:
            pool = read_pool(request_of(self._run.vm(entry.vm)))
            events.append(
                VmEvent(entry.at_s, entry.kind, entry.vm, pool, entry.failure, entry.detail)
            )
        return events

    def start_workers(self, world: World) -> None:
        """Starts a world; see `Backend`."""
        for vm in world.vms:
            gpus = request_of(self._known(vm.vm))["gpus"]
            if vm.workers > gpus:
                raise InputError(f"{vm.vm} has {gpus} GPUs, so {vm.workers} workers cannot run")
        newest = read_json(self._run.world)
        if newest is not None and newest["generation"] >= world.generation:
            if newest["generation"] > world.generation:
                raise InputError(
                    f"generation {world.generation} is over; {newest['generation']} was started"
                )
        else:
            write_json(
                self._run.world,
                {
                    "generation": world.generation,
                    "vms": [asdict(vm) for vm in world.vms],
                    "command": list(world.command),
                    "shares": world.shares,
                    "checkpoint": world.checkpoint or str(self._run.path / "checkpoints"),
                    "env": dict(world.env),
                    "address": None,
                    "port": None,
                },
            )
        self._look()

    def workers(self) -> list[VmWorkers]:
        """Returns the workers of the newest world; see `Backend`."""
        self._look()
        newest = read_json(self._run.world)
        if newest is None:
            return []
        generation: int = newest["generation"]
        over = self._over()
        found: list[VmWorkers] = []
        for vm in newest["vms"]:
            name = vm["vm"]
            report = self._reports.get(name)
            if name in over or report is None:
                continue
            log = str(self._mirror.log(name, generation))
            if report.generation != generation:
                found.append(VmWorkers(name, generation, WorkersStatus.STARTING, log=log))
            elif report.exit_code is None:
                found.append(VmWorkers(name, generation, WorkersStatus.RUNNING, log=log))
            else:
                found.append(
                    VmWorkers(name, generation, WorkersStatus.ENDED, report.exit_code, log)
                )
        return found

    def stop_workers(self, *, save: bool) -> None:
        """Has the newest world end; see `Backend`."""
        newest = read_json(self._run.world)
        if newest is None:
            return
        for vm in newest["vms"]:
            self._session.tell(vm["vm"], "stop", newest["generation"], save=save)

    def progress(self, after: Mapping[int, int]) -> list[WorkerLines]:
        """Returns what the workers logged; see `Backend`."""
        self._look()
        over = self._over()
        now = time.monotonic()
        alive = [
            name
            for name, heard in self._heard.items()
            if name not in over and now - heard < _FRESH_S
        ]
        self._mirror.fetch(alive)
        return self._mirror.lines(after)

    def terminate(self, vms: Sequence[str]) -> None:
        """Ends VMs; see `Backend`."""
        over = self._over()
        for files in [self._known(name) for name in vms]:
            if files.path.name not in over:
                files.end.touch()
        self._look(at_once=True)

    def reconcile(self) -> list[VmState]:
        """Returns every VM as it really is; see `Backend`."""
        self._look()
        entries = self._run.entries()
        return [
            vm_state(files, [entry for entry in entries if entry.vm == files.path.name])
            for files in self._run.all_vms()
            if files.request.exists()
        ]

    def _is_one_host(self) -> bool:
        return len(self._session.hosts()) <= 1

    def _look(self, *, at_once: bool = False) -> None:
        """Sees how all VMs fare, notes what changed, and does what is due."""
        if not at_once and time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        leave_sign(self._nodes.signs, HEARD)
        entries = self._run.entries()
        over = {entry.vm for entry in entries if entry.stopped_s is not None}
        running = {entry.vm for entry in entries if entry.kind is VmEventKind.LAUNCHED}
        self._noticed |= {entry.vm for entry in entries if entry.kind is VmEventKind.NOTICE}
        live = [
            files
            for files in self._run.all_vms()
            if files.path.name not in over and files.request.exists()
        ]
        for files in live:
            if files.path.name not in running and not files.end.exists():
                request = request_of(files)
                self._session.make_agent(
                    files.path.name, request["node_type"], request["gpus"], request["setup"]
                )
        answers = self._session.ask([files.path.name for files in live], "report")
        for files in live:
            self._take(files, answers[files.path.name], running)
        self._refuse(live, running)
        self._push_world()

    def _take(self, files: VmFolder, answer: Answer, running: set[str]) -> None:
        """Notes what one VM's answer says."""
        name = files.path.name
        if answer.silence is None:
            report = Report(**answer.value)
            self._reports[name] = report
            self._hear(name, report, running)
            if report.ended:
                self._session.forget(name)
                self._say(VmEventKind.TERMINATED, name, report.ended, gone=True)
                return
        if files.end.exists():
            if answer.silence is None:
                self._session.tell(name, "end", "as the run asked")
            else:  # not placed yet, hung, or gone
                self._session.forget(name)
                self._say(VmEventKind.TERMINATED, name, "as the run asked", gone=True)
        elif answer.silence is Silence.DEAD and name in running:
            self._bury(files)
        elif answer.silence is Silence.DEAD:
            text = "its agent ended before it said anything; are srifty and ray on the image?"
            self._fail(name, LaunchFailure.UNKNOWN, text)
        elif answer.silence is Silence.UNHEARD and name in running:
            heard = self._heard.setdefault(name, time.monotonic())
            silent_s = time.monotonic() - heard
            if silent_s > _LOST_AFTER_S and not self._is_lost(name):
                detail = f"its agent has not been heard of for {silent_s:.0f} s"
                self._say(VmEventKind.LOST, name, detail)

    def _hear(self, name: str, report: Report, running: set[str]) -> None:
        self._heard[name] = time.monotonic()
        if name not in running:
            running.add(name)
            self._say(VmEventKind.LAUNCHED, name)
        elif self._is_lost(name):
            self._say(VmEventKind.RECOVERED, name, "its agent is heard of again")
        if report.notice_unix_s is not None and name not in self._noticed:
            self._noticed.add(name)
            at_s = self._clock.at_s(report.notice_unix_s)
            self._say(VmEventKind.NOTICE, name, f"will be taken back at {at_s:.0f} s")

    def _bury(self, files: VmFolder) -> None:
        """Notes the end of a VM whose agent is no more."""
        name = files.path.name
        setup = request_of(files)["setup"]
        silent_s = time.monotonic() - self._heard.get(name, time.monotonic())
        if name in self._noticed:
            self._say(VmEventKind.PREEMPTED, name, "taken back after a notice", gone=True)
        elif time.time() >= setup["hard_end_unix_s"]:
            self._say(VmEventKind.TERMINATED, name, "by itself, at the run's hard end", gone=True)
        else:
            self._say(
                VmEventKind.LOST, name, f"gone; last heard of {silent_s:.0f} s ago", gone=True
            )

    def _refuse(self, live: Sequence[VmFolder], running: set[str]) -> None:
        """Notes which VMs are not to be had."""
        over = self._over()
        waiting = [
            files
            for files in live
            if files.path.name not in running and files.path.name not in over
        ]
        if not waiting:
            return
        if not self._nodes.are_rented:
            requests = {files.path.name: request_of(files) for files in live}
            for name, text in unplaced(requests, running, self._session.resources()).items():
                self._fail(name, LaunchFailure.CAPACITY, text)
            return
        status = self._session.autoscaler_status()
        for files in waiting:
            request = request_of(files)
            refusal = refusals(status, request["asked_unix_s"]).get(request["node_type"])
            if refusal is not None:
                self._fail(files.path.name, refusal.kind, refusal.text)

    def _fail(self, name: str, why: LaunchFailure, text: str) -> None:
        self._session.forget(name)
        now_s = self._clock.now_s()
        entry = Entry(now_s, VmEventKind.FAILED, name, text, why, stopped_s=now_s)
        append_entry(self._run.journal, entry)

    def _push_world(self) -> None:
        """Gives the newest world to those of its VMs that do not have it yet."""
        world = read_json(self._run.world)
        if world is None:
            return
        over = self._over()
        names = [vm["vm"] for vm in world["vms"]]
        reports = {name: self._reports.get(name) for name in names if name not in over}
        late = [
            name
            for name, report in reports.items()
            if report is not None and report.generation < world["generation"]
        ]
        if not late:
            return
        if world["port"] is None:
            address = self._session.address(names[0])
            port = self._session.get(names[0], "free_port").value
            if address is None or port is None:
                return  # the first VM is not there; the others wait for it
            world = world | {"address": address, "port": port}
            write_json(self._run.world, world)
        for name in late:
            self._session.tell(name, "start", asdict(self._orders(world, names.index(name))))

    def _orders(self, world: Mapping[str, Any], node: int) -> Orders:
        vm = world["vms"][node]
        request = request_of(self._run.vm(vm["vm"]))
        secrets = {name: os.environ[name] for name in request["secrets"] if name in os.environ}
        return Orders(
            generation=world["generation"],
            node=node,
            nodes=len(world["vms"]),
            workers=vm["workers"],
            address=world["address"],
            port=world["port"],
            command=tuple(world["command"]),
            shares=world["shares"],
            checkpoint=world["checkpoint"],
            env={**request["env"], **world["env"], **secrets},
            pace_s=vm["pace_s"],
        )

    def _say(self, kind: VmEventKind, name: str, detail: str = "", *, gone: bool = False) -> None:
        now_s = self._clock.now_s()
        entry = Entry(now_s, kind, name, detail, stopped_s=now_s if gone else None)
        append_entry(self._run.journal, entry)

    def _is_lost(self, name: str) -> bool:
        mine = [entry for entry in self._run.entries() if entry.vm == name]
        return bool(mine) and mine[-1].kind is VmEventKind.LOST

    def _over(self) -> set[str]:
        return {entry.vm for entry in self._run.entries() if entry.stopped_s is not None}

    def _known(self, name: str) -> VmFolder:
        files = self._run.vm(name)
        request_of(files)
        return files
