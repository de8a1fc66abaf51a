"""The processes of one VM's workers: torchrun, or one process for each worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from srifty.cloud.local.processes import (
    VM_TAG,
    dies_with_parent,
    end_all,
    kill_all,
    stopped,
    tagged,
)

# Where the workers of VMs without links of their own meet.
LOOPBACK = "127.0.0.1"
# As a shell has it for a command that cannot be run.
_NOT_STARTED = 127
# Real seconds for which a worker may be stopped. All others wait for it, and nothing ends.
_STOPPED_S = 5.0


class Launcher(StrEnum):
    """What starts the workers.

    `TORCHRUN` is what real VMs do. `PLAIN` starts the workers with the same variables and no
    process of torchrun's for each VM, which costs three seconds of a core and 200 MB. `PRELOADED`
    forks them from an interpreter that loads torch while the VM boots: worlds begin within a
    second, which a run with a fast clock needs.
    """

    TORCHRUN = "torchrun"
    PLAIN = "plain"
    PRELOADED = "preloaded"


@dataclass(frozen=True, slots=True)
class VmPlace:
    """Where a VM's workers stand in their world.

    Attributes:
        generation: of the world.
        node: the VM's place among the world's VMs.
        nodes: VMs of the world.
        first_rank: rank of its first worker.
        workers: on this VM.
        world_size: workers of all VMs.
        address: of the first VM.
        port: of the first worker, where all meet.
    """

    generation: int
    node: int
    nodes: int
    first_rank: int
    workers: int
    world_size: int
    address: str
    port: int


class LocalWorkers:
    """Workers of one VM that were started.

    Args:
        command: the training script and its arguments.
        place: where they stand in their world.
        launcher: what starts them.
        environment: their variables, those of the world apart.
        workdir: where they start.
        log: what they print is appended to it.
        tag: by which their processes are found.
        preloaded: what forks them, with `Launcher.PRELOADED`.
    """

    def __init__(
        self,
        command: Sequence[str],
        place: VmPlace,
        launcher: Launcher,
        *,
        environment: Mapping[str, str],
        workdir: Path,
        log: Path,
        tag: str,
        preloaded: Preloaded | None = None,
    ) -> None:
        self.generation = place.generation
        self.exit_code: int | None = None
        self._tag = tag
        self._log = log
        self._stopped = False
        self._seen_going_s = self._looked_s = time.monotonic()
        self._children: list[subprocess.Popen[bytes]] = []
        with log.open("ab", buffering=0) as output:
            try:
                if launcher is Launcher.TORCHRUN:
                    self._children.append(_torchrun(command, place, environment, workdir, output))
                elif launcher is Launcher.PRELOADED:
                    before = preloaded or Preloaded(tag)
                    self._children.append(before.fork(command, place, environment, workdir, log))
                else:
                    for local_rank in range(place.workers):
                        self._children.append(
                            _worker(command, place, local_rank, environment, workdir, output)
                        )
            except OSError as error:
                output.write(f"the workers could not be started: {error}\n".encode())
                self.exit_code = _NOT_STARTED

    def poll(self) -> int | None:
        """Returns how the workers ended; None while they run.

        One that fails takes the others of its VM with it, as torchrun has it. One that is stopped
        from outside has failed: it would hold up all workers of all VMs without an end.
        """
        if self.exit_code is None:
            codes = [child.poll() for child in self._children]
            failed = [code for code in codes if code not in (None, 0)]
            if failed:
                self.exit_code = failed[0]
                self.kill()
            elif None not in codes:
                self.exit_code = 0
            else:
                self._look_for_stopped()
        return self.exit_code

    def _look_for_stopped(self) -> None:
        """Kills workers of which one has been stopped for too long, not by `hold`."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _STOPPED_S / 5:
            return
        # Where this process was held up itself, nobody has looked for so long.
        if now_s - self._looked_s > _STOPPED_S / 2:
            self._seen_going_s = now_s
        self._looked_s = now_s
        found = stopped(child.pid for child in self._children)
        if not found:
            self._seen_going_s = now_s
        elif now_s - self._seen_going_s >= _STOPPED_S:
            with self._log.open("a", encoding="utf-8") as output:
                output.write(f"process {found[0]} was stopped (SIGSTOP); its workers are killed\n")
            self.exit_code = -signal.SIGSTOP
            self.kill()

    def kill(self) -> None:
        """Kills what still runs of them, at once, and what they started."""
        end_all(tagged(self._tag))
        for child in self._children:
            child.kill()
            code = child.wait()
            if self.exit_code is None:
                self.exit_code = code

    def kill_one(self) -> None:
        """Kills the first worker, as a fault of its own would."""
        kill_all(tagged(self._tag, "LOCAL_RANK=0")[:1])

    def hold(self, *, stopped: bool) -> None:
        """Stops the workers' processes, or has them go on."""
        self._seen_going_s = time.monotonic()
        if stopped != self._stopped:
            self._stopped = stopped
            kill_all(tagged(self._tag), signal.SIGSTOP if stopped else signal.SIGCONT)


class Preloaded:
    """An interpreter that has loaded torch, and forks one world's workers when told to.

    Args:
        tag: by which its processes are found.
    """

    def __init__(self, tag: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "srifty.cloud.local.preloaded"],
            env={**os.environ, VM_TAG: tag},
            stdin=subprocess.PIPE,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )

    @property
    def is_there(self) -> bool:
        """Whether it lives still."""
        return self._process.poll() is None

    def fork(
        self,
        command: Sequence[str],
        place: VmPlace,
        environment: Mapping[str, str],
        workdir: Path,
        log: Path,
    ) -> subprocess.Popen[bytes]:
        """Has it fork the workers; returns the process that ends as they do."""
        asked = {
            "command": list(command),
            "workdir": str(workdir),
            "log": str(log),
            "workers": [
                _worker_variables(place, local_rank, environment)
                for local_rank in range(place.workers)
            ],
        }
        if self._process.stdin is None:
            raise OSError("its input is closed")
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.close()
        return self._process


def _torchrun(
    command: Sequence[str],
    place: VmPlace,
    environment: Mapping[str, str],
    workdir: Path,
    output: IO[bytes],
) -> subprocess.Popen[bytes]:
    # A world is started anew by the controller, never by torchrun: a failed one ends.
    arguments = [
        *(sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=static"),
        *(f"--nnodes={place.nodes}", f"--node-rank={place.node}"),
        *(f"--nproc-per-node={place.workers}", "--max-restarts=0"),
        *(f"--master-addr={place.address}", f"--master-port={place.port}"),
        *("--rdzv-id", f"generation-{place.generation}"),
    ]
    variables = {
        **environment,
        # Else the workers' store lives in the first VM's torchrun, and stale addresses with it.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return _start([*arguments, *command], variables, workdir, output, signal.SIGTERM)


def _worker(
    command: Sequence[str],
    place: VmPlace,
    local_rank: int,
    environment: Mapping[str, str],
    workdir: Path,
    output: IO[bytes],
) -> subprocess.Popen[bytes]:
    variables = _worker_variables(place, local_rank, environment)
    return _start([sys.executable, *command], variables, workdir, output, signal.SIGKILL)


def _worker_variables(
    place: VmPlace, local_rank: int, environment: Mapping[str, str]
) -> dict[str, str]:
    return {
        **environment,
        "RANK": str(place.first_rank + local_rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(place.workers),
        "GROUP_RANK": str(place.node),
        "GROUP_WORLD_SIZE": str(place.nodes),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(place.port),
    }


def _start(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    workdir: Path,
    output: IO[bytes],
    with_us: signal.Signals,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the user's own script, run as the user asks
        arguments,
        cwd=workdir,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=dies_with_parent(with_us),
    )
