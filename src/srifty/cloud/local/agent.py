"""A local VM: a process that boots, runs workers, meets its fate, and ends itself when it should.

    python -m srifty.cloud.local.agent RUN_FOLDER VM

is started by the back end, in a session of its own. It outlives the controller, but not by long:
without a sign of it for `silence_s`, or at `hard_end_s`, it kills its workers and ends. It owes
nothing to whoever started it and is told everything by files (see `run_folder`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from srifty.cloud.clock import Clock
from srifty.cloud.local.launcher import Launcher, LocalWorkers, Preloaded, VmPlace
from srifty.cloud.local.links import DEVICE, Link, connect, cut, is_up, read_link
from srifty.cloud.local.metadata import MetadataService
from srifty.cloud.local.processes import VM_TAG, end_all, tagged
from srifty.cloud.local.run_folder import (
    Entry,
    RunFolder,
    append_entry,
    read_happening,
    read_json,
    write_json,
)
from srifty.cloud.locks import take_lock
from srifty.cloud.variables import CHECKPOINT, NOTICES, PACE, PROGRESS, SHARES, STOP
from srifty.core.events import VmEventKind
from srifty.core.scenario import Act, Happening

_TICK_S = 0.1
_PULSE_S = 1.0
# A slow VM's workers are stopped for a part of each such span.
_DUTY_S = 0.2
_TAIL_BYTES = 4096
# By which gloo and NCCL choose their device: a VM's name says nothing in its namespace.
_DEVICES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


class Agent:
    """One VM's life.

    Args:
        run: the run's files.
        name: the VM's.
        request: what the back end wrote for it.
    """

    def __init__(self, run: RunFolder, name: str, request: dict[str, Any]) -> None:
        self._run = run
        self._name = name
        self._files = run.vm(name)
        self._request = request
        self._clock = Clock(request["origin_s"], request["clock_factor"])
        self._pending = [read_happening(what) for what in request["happenings"]]
        self._may_delay = any(what.act is Act.DELAY for what in self._pending)
        self._running_s: float | None = None
        self._taken_at_s: float | None = None
        self._slow: Happening | None = None
        self._slow_until_s = 0.0
        self._delay: Happening | None = None
        self._delay_until_s = 0.0
        self._pulsed_s = 0.0
        self._link: Link | None = read_link(request["link"])
        self._cut_until_s = float("inf")
        self._heard_unix_s = time.time()
        self._workers: LocalWorkers | None = None
        self._world: dict[str, Any] = {}
        self._preloaded: Preloaded | None = None
        self._metadata: MetadataService | None = None
        if any(what.notice_s > 0 for what in self._pending):
            self._metadata = MetadataService()

    def live(self) -> None:
        """Lives to the end."""
        try:
            while True:
                ended = self._tick()
                if ended is not None:
                    break
                time.sleep(_TICK_S if self._slow is None else _DUTY_S / 4)
        finally:
            if self._workers is not None:
                self._workers.kill()
            self._report()
        kind, detail = ended
        self._say(kind, detail, gone=True)

    def _tick(self) -> tuple[VmEventKind, str] | None:
        """Does what is due; returns how the VM ends, if it does."""
        now_s = self._clock.now_s()
        # Who is cut off hears nothing, and is not heard.
        if self._link is None or is_up():
            self._heard_unix_s = self._run.heartbeat.stat().st_mtime
            if time.time() - self._pulsed_s >= _PULSE_S:
                self._pulsed_s = time.time()
                self._files.pulse.touch()
        if self._link is not None and now_s >= self._cut_until_s:
            self._cut_until_s = float("inf")
            cut(self._link, restore=True)
        ended = self._end(now_s)
        if ended is not None:
            return ended
        if self._running_s is None:
            self._preload()
            if now_s < self._request["boots_at_s"]:
                return None
            self._running_s = now_s
            self._say(VmEventKind.LAUNCHED)
        for what in [what for what in self._pending if self._is_due(what, now_s)]:
            self._pending.remove(what)
            self._meet(what, now_s)
        self._serve()
        self._preload()
        self._hold(now_s)
        return None

    def _end(self, now_s: float) -> tuple[VmEventKind, str] | None:
        if self._taken_at_s is not None and now_s >= self._taken_at_s:
            return VmEventKind.PREEMPTED, "taken back by the played cloud"
        if self._files.end.exists():
            return VmEventKind.TERMINATED, "as the run asked"
        if now_s >= self._request["hard_end_s"]:
            return VmEventKind.TERMINATED, "by itself, at the run's hard end"
        silence_s = now_s - self._clock.at_s(self._heard_unix_s)
        if silence_s > self._request["silence_s"]:
            return (
                VmEventKind.TERMINATED,
                f"by itself: the controller was not heard of for {silence_s:.0f} s",
            )
        return None

    def _is_due(self, what: Happening, now_s: float) -> bool:
        if what.at_s is not None:
            return now_s >= what.at_s
        if what.after_s is not None:
            return now_s - (self._running_s or 0.0) >= what.after_s
        return self._iterations() >= (what.at_iteration or 0)

    def _meet(self, what: Happening, now_s: float) -> None:
        match what.act:
            case Act.PREEMPT:
                self._taken_at_s = now_s + what.notice_s
                if self._metadata is not None and what.notice_s > 0:
                    self._metadata.notice_unix_s = self._clock.unix_s(self._taken_at_s)
                    self._say(VmEventKind.NOTICE, f"will be taken back at {self._taken_at_s:.0f} s")
            case Act.SLOW:
                self._slow = what
                self._slow_until_s = now_s + (
                    float("inf") if what.lasts_s is None else what.lasts_s
                )
                self._write_pace()
            case Act.DELAY:
                self._delay = what
                self._delay_until_s = now_s + (
                    float("inf") if what.lasts_s is None else what.lasts_s
                )
                self._write_pace()
            case Act.HANG:
                if self._workers is not None:
                    self._workers.hold(stopped=True)
                os.kill(os.getpid(), signal.SIGSTOP)
            case Act.DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            case Act.CUT:
                if self._link is not None:
                    cut(self._link)
                    self._cut_until_s = now_s + (what.lasts_s or float("inf"))
            case Act.KILL_WORKER:
                if self._workers is not None:
                    self._workers.kill_one()

    def _serve(self) -> None:
        """Starts, kills and watches workers."""
        world = read_json(self._files.world)
        generation = 0 if self._workers is None else self._workers.generation
        if world is not None and world["generation"] > generation:
            self._kill()
            self._start(world)
        if self._workers is None:
            return
        was_running = self._workers.exit_code is None
        kill = read_json(self._files.kill)
        if kill is not None and kill["generation"] >= self._workers.generation:
            self._kill()
        if was_running and self._workers.poll() is not None:
            self._report()

    def _kill(self) -> None:
        """Kills workers that have not ended, and with them what was preloaded."""
        if self._workers is not None and self._workers.exit_code is None:
            self._workers.kill()
            self._preloaded = None

    def _preload(self) -> None:
        """Has an interpreter ready for the next workers, where they are forked from one."""
        if Launcher(self._request["launcher"]) is not Launcher.PRELOADED:
            return
        is_needed = self._workers is None or self._workers.exit_code is not None
        if is_needed and (self._preloaded is None or not self._preloaded.is_there):
            self._preloaded = Preloaded(self._files.tag)

    def _start(self, world: dict[str, Any]) -> None:
        self._world = world
        place = VmPlace(**world["place"])
        self._write_pace()
        self._workers = LocalWorkers(
            world["command"],
            place,
            Launcher(world["launcher"]),
            environment={
                **world["env"],
                SHARES: world["shares"],
                CHECKPOINT: world["checkpoint"],
                PROGRESS: str(self._run.progress),
                STOP: str(self._run.stop(place.generation)),
                **({PACE: str(self._files.pace)} if self._is_paced else {}),
                **({NOTICES: self._metadata.source} if self._metadata is not None else {}),
                **({} if self._link is None else dict.fromkeys(_DEVICES, DEVICE)),
                VM_TAG: self._files.tag,
            },
            workdir=Path(world["workdir"]),
            log=self._files.log(place.generation),
            tag=self._files.tag,
            preloaded=self._preloaded,
        )
        self._preloaded = None
        self._report()

    def _report(self) -> None:
        if self._workers is not None:
            write_json(
                self._files.workers,
                {"generation": self._workers.generation, "exit_code": self._workers.exit_code},
            )

    def _hold(self, now_s: float) -> None:
        """Slows the workers of a slow VM down."""
        if self._delay is not None and now_s >= self._delay_until_s:
            self._delay = None
            self._write_pace()
        if self._slow is None:
            return
        over = now_s >= self._slow_until_s
        factor = self._slow.factor
        if over:
            self._slow = None
            self._write_pace()
        # A pace that is played is slowed by itself; what really computes is stopped for a while.
        if self._workers is not None and self._world.get("pace_s") is None:
            part = (time.time() % _DUTY_S) / _DUTY_S
            self._workers.hold(stopped=not over and part > 1 / factor)

    def _write_pace(self) -> None:
        if not self._is_paced:
            return
        factor = 1.0 if self._slow is None else self._slow.factor
        delay_s = 0.0 if self._delay is None else self._delay.by_s
        pace = {
            "step_s": (self._world.get("pace_s") or 0.0) * factor / self._clock.factor,
            "exchange_s": delay_s / self._clock.factor,
        }
        write_json(self._files.pace, pace)

    @property
    def _is_paced(self) -> bool:
        """Whether its workers are held up: by a played GPU, or by what will happen to it."""
        return self._world.get("pace_s") is not None or self._may_delay

    def _iterations(self) -> int:
        """Returns how many iterations were made, as the first worker's log has it."""
        log = self._run.progress / "worker-00000.jsonl"
        if not log.exists():
            return 0
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
        for line in reversed(lines):
            try:
                said: Any = json.loads(line)
            except ValueError:
                continue  # torn by a kill, cut by the tail, or empty
            if "step" in said:
                return int(said["step"]) + 1
        return 0

    def _say(self, kind: VmEventKind, detail: str = "", *, gone: bool = False) -> None:
        now_s = self._clock.now_s()
        entry = Entry(now_s, kind, self._name, detail, stopped_s=now_s if gone else None)
        append_entry(self._run.journal, entry)


def main() -> None:
    """Runs the VM that the arguments name, unless it runs already."""
    run, name = RunFolder(Path(sys.argv[1])), sys.argv[2]
    files = run.vm(name)
    for _ in range(20):
        # A look at the lock holds it for an instant.
        if take_lock(files.lock) is not None:
            break
        time.sleep(0.05)
    else:
        return
    # Another agent of this VM cannot have the lock: it hangs, or would end at once.
    end_all(tagged(files.tag))
    request = read_json(files.request)
    ended = any(entry.vm == name and entry.stopped_s is not None for entry in run.entries())
    if request is not None and not ended:
        link = read_link(request["link"])
        if link is not None:
            connect(link)
        Agent(run, name, request).live()


if __name__ == "__main__":
    main()
