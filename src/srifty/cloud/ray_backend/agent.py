"""The agent of a VM: an actor that starts torchrun, and ends the VM when nobody is there to.

It knows nothing of Ray, which only carries its calls.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from srifty.cloud.local.processes import VM_TAG, dies_with_parent, kill_all, tagged
from srifty.cloud.ray_backend import bound
from srifty.cloud.ray_backend.interruptions import interruption_unix_s
from srifty.cloud.ray_backend.watchdog import END, HEARD, leave_sign
from srifty.cloud.variables import CHECKPOINT, NOTICES, PACE, PROGRESS, SHARES, STOP

_TICK_S = 0.2
_NOTICE_EVERY_S = 5.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What an agent is told when it is made; nothing secret, as Ray keeps it.

    Attributes:
        vm: the VM's name.
        tag: by which processes of the VM are found.
        folder: of the VM's files, on the VM; `{uid}` stands for the user's number there.
        workdir: where workers start.
        hard_end_unix_s: when the VM ends itself, seconds since 1970.
        silence_s: real seconds without a call after which it ends itself.
        notices: where the cloud tells that the VM is taken back, as `SRIFTY_NOTICES` names it, such
            as `ec2`; empty for nowhere.
        end_command: what ends the VM itself; empty where the cluster's autoscaler does.
        signs: folder for the VM's watchdog, which ends it without signs of the controller; empty:
            it has none.
    """

    vm: str
    tag: str
    folder: str
    workdir: str
    hard_end_unix_s: float
    silence_s: float
    notices: str = ""
    end_command: tuple[str, ...] = ()
    signs: str = ""


@dataclass(frozen=True, slots=True)
class Orders:
    """A VM's part of a world.

    Attributes:
        generation: of the world.
        node: the VM's place among the world's VMs.
        nodes: VMs of the world.
        workers: on this VM.
        address: of the first VM.
        port: a free port there.
        command: the training script and its arguments.
        shares: of all workers.
        checkpoint: folder or URL of the checkpoints.
        env: further variables; secrets among them.
        pace_s: seconds that a step takes at least; None: as long as it takes.
    """

    generation: int
    node: int
    nodes: int
    workers: int
    address: str
    port: int
    command: tuple[str, ...]
    shares: str
    checkpoint: str
    env: dict[str, str] = field(repr=False)
    pace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How a VM fares.

    Attributes:
        running_unix_s: since when it runs, seconds since 1970.
        generation: of the world it has workers of; 0: none yet.
        exit_code: how they ended; None while they run.
        notice_unix_s: when the VM is going to be taken back; None: not that anybody said.
        ended: why it ended itself; empty: it did not.
    """

    running_unix_s: float
    generation: int
    exit_code: int | None
    notice_unix_s: float | None
    ended: str


class VmAgent:
    """Starts, watches and ends the workers of one VM.

    Args:
        setup: an `AgentSetup` as a mapping.
    """

    def __init__(self, setup: dict[str, Any]) -> None:
        self._setup = AgentSetup(**setup)
        self._folder = Path(self._setup.folder.replace("{uid}", str(os.getuid())))
        # What is there is of an earlier run of this name, on a machine that is not rented.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)
        self._lock = threading.Lock()
        self._running_unix_s = self._heard = time.time()
        self._asked_notice = 0.0
        self._orders: Orders | None = None
        self._next: Orders | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None
        self._notice_unix_s: float | None = None
        self._ended = ""
        self._ending: subprocess.Popen[bytes] | None = None
        # Workers die with the thread that started them, so it is one that lives as long as we do.
        threading.Thread(target=self._live, daemon=True).start()

    def report(self) -> dict[str, Any]:
        """Returns a `Report` as a mapping; that it was asked for is the controller's heartbeat."""
        leave_sign(self._setup.signs, HEARD)
        with self._lock:
            self._heard = time.time()
            generation = 0 if self._orders is None else self._orders.generation
            running = self._exit_code is None
            return asdict(
                Report(
                    self._running_unix_s,
                    generation,
                    None if running else self._exit_code,
                    self._notice_unix_s,
                    self._ended,
                )
            )

    def free_port(self) -> int:
        """Returns a port that is free on this VM."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]

    def start(self, orders: dict[str, Any]) -> None:
        """Starts the workers of a world, unless they or newer ones were; older ones are killed."""
        asked = Orders(**orders)
        with self._lock:
            newest = self._next or self._orders
            if newest is None or newest.generation < asked.generation:
                self._next = asked

    def stop(self, generation: int, *, save: bool) -> None:
        """Has the workers of a generation save and stop, or kills them."""
        if save:
            self._stop_file(generation).touch()
            return
        with self._lock:
            if self._orders is not None and self._orders.generation <= generation:
                self._kill()

    def end(self, reason: str) -> None:
        """Ends the workers, and the VM where that is in our hands."""
        with self._lock:
            self._kill()
            if not self._ended:
                self._ended = reason
                leave_sign(self._setup.signs, END)
                if self._setup.end_command:
                    self._ending = subprocess.Popen(self._setup.end_command)  # noqa: S603 - ours

    def read_more(self, sizes: dict[str, int]) -> dict[str, bytes]:
        """Returns what was appended to the VM's logs.

        Args:
            sizes: how much of each is known, by its name inside the VM's folder.
        """
        found: dict[str, bytes] = {}
        paths = [*self._folder.glob("progress-*/worker-*.jsonl"), *self._folder.glob("*.log")]
        for path in sorted(paths):
            name = str(path.relative_to(self._folder))
            with path.open("rb") as file:
                file.seek(sizes.get(name, 0))
                more = file.read(_MOST_BYTES)
            if more:
                found[name] = more
        return found

    def _live(self) -> None:
        while True:
            with self._lock:
                self._tick()
            if self._setup.notices and time.time() - self._asked_notice > _NOTICE_EVERY_S:
                self._asked_notice = time.time()
                self._notice_unix_s = interruption_unix_s(self._setup.notices)
            reason = self._reason_to_end()
            if reason and not self._ended:
                self.end(reason)
            time.sleep(_TICK_S)

    def _tick(self) -> None:
        """Starts what is to be started and looks how it fares; under the lock."""
        if self._next is not None and not self._ended:
            self._kill()
            self._orders, self._next = self._next, None
            self._exit_code = None
            self._process = self._torchrun(self._orders)
        if self._process is not None and self._exit_code is None:
            self._exit_code = self._process.poll()
        if self._ending is not None:
            self._ending.poll()

    def _reason_to_end(self) -> str:
        silence_s = time.time() - self._heard
        if time.time() >= self._setup.hard_end_unix_s:
            return "by itself, at the run's hard end"
        if silence_s > self._setup.silence_s:
            return f"by itself: the controller was not heard of for {silence_s:.0f} s"
        return ""

    def _torchrun(self, orders: Orders) -> subprocess.Popen[bytes]:
        progress = self._folder / f"progress-{orders.generation:06d}"
        progress.mkdir(exist_ok=True)
        # A world is started anew by the controller, never by torchrun: a failed one ends.
        arguments = [
            *(sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=static"),
            *(f"--nnodes={orders.nodes}", f"--node-rank={orders.node}"),
            *(f"--nproc-per-node={orders.workers}", "--max-restarts=0"),
            *(f"--master-addr={orders.address}", f"--master-port={orders.port}"),
            *("--no-python", sys.executable, bound.__file__, sys.executable, "-u"),
            *orders.command,
        ]
        variables = {
            **orders.env,
            SHARES: orders.shares,
            CHECKPOINT: orders.checkpoint,
            PROGRESS: str(progress),
            STOP: str(self._stop_file(orders.generation)),
            VM_TAG: self._setup.tag,
            # Else the workers' store lives in the first VM's torchrun, and stale addresses with it.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        if self._setup.notices:
            variables[NOTICES] = self._setup.notices
        if orders.pace_s is not None:
            pace = self._folder / "pace.json"
            pace.write_text(f'{{"step_s": {orders.pace_s}}}', encoding="utf-8")
            variables[PACE] = str(pace)
        with (self._folder / f"workers-{orders.generation:06d}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the user's own script, run as the user asks
                arguments,
                cwd=Path(self._setup.workdir).expanduser(),
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )

    def _kill(self) -> None:
        """Kills the workers and what they started; under the lock."""
        kill_all(tagged(self._setup.tag))
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            code = self._process.wait()
            if self._exit_code is None:
                self._exit_code = code

    def _stop_file(self, generation: int) -> Path:
        return self._folder / f"stop-{generation}"
