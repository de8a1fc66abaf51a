"""A small run on the local back end in a folder, through the public commands."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.chaos.toy import BATCH
from srifty.cloud.local.processes import VM_TAG
from srifty.control.ledger import Ledger

_HERE = Path(__file__).parent
# A word in the command of the processes that make steps. Those that train are forked from
# interpreters that have loaded torch.
STEPPERS = {False: "worker.py", True: "local.preloaded"}
EVERY, LAST = 10, 20
_NAME = "chaos"
_KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Process:
    """A process of one of the run's VMs.

    Attributes:
        pid: its number.
        vm: the VM's name.
    """

    pid: int
    vm: str


class PlayedRun:
    """One run in a folder.

    Args:
        folder: empty.
        chance: says which launches are refused.
        factor: of the run's clock.
        steps: of the job.
        step_s: about how long one of them takes, real seconds.
        vms: what happens to the first VMs, as a scenario file has it.
        refuses: whether some launches are refused.
        links: whether each VM has a link of its own.
        trained: whether the workers train a network (see `trainer`), or play it (`worker`).
    """

    def __init__(
        self,
        folder: Path,
        chance: random.Random,
        *,
        factor: float,
        steps: int,
        step_s: float,
        vms: Sequence[dict[str, Any]] = (),
        refuses: bool = False,
        links: bool = False,
        trained: bool = False,
    ) -> None:
        self.folder = folder
        self.steps = steps
        self.trained = trained
        self.script = _HERE / ("trainer.py" if trained else "worker.py")
        self.factor = factor
        self.place = folder / "runs" / _NAME
        self.dealt = folder / "dealt"
        self._errors = folder / "errors"
        self.environment = {
            **os.environ,
            "SRIFTY_RUNS": str(folder / "runs"),
            "SRIFTY_CATALOG": str(folder / "catalog.csv"),
        }
        self._write_job(step_s * factor)
        answers: list[str | None] = []
        if refuses:
            answers = [chance.choice([None, "InsufficientInstanceCapacity"]) for _ in range(3)]
            answers[0] = "InsufficientInstanceCapacity"
        pools = [
            {
                "type": "g4dn.xlarge",
                "market": "spot",
                "boot": f"{0.3 * factor}s",
                "answers": answers,
                "vms": list(vms),
            },
            {"boot": f"{0.3 * factor}s"},
        ]
        if links:
            pools = [pool | {"link_mbit": 1000} for pool in pools]
        scenario = {"clock_factor": factor, "pools": pools}
        (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))

    def _write_job(self, pace_s: float) -> None:
        latencies = [
            {"batch": 8, "forward_s": 0.3 * pace_s, "backward_s": 0.5 * pace_s},
            {"batch": 64, "forward_s": 0.6 * pace_s, "backward_s": pace_s},
        ]
        profile = {
            "format": "srifty-profile/1",
            "workload": "chaos",
            "source": "made up",
            "max_batch": 64,
            "latencies": latencies,
            "gradients": [{"name": "all", "bytes": 4, "ready": 1.0}],
        }
        for gpu in ("T4", "M60"):
            (self.folder / f"{gpu}.json").write_text(json.dumps(profile | {"gpu": gpu}))
        # A run of seconds costs dollars at these prices, so that a cent shows.
        prices = {
            "g4dn.xlarge": {"spot": 200.0, "on-demand": 500.0},
            "g3.4xlarge": {"spot": 300.0},
        }
        job = {
            "name": "chaos",
            "workload": ["T4.json", "M60.json"],
            "global_batch": BATCH,
            "iterations": self.steps,
            "minimize": "time",
            "budget_usd": 10**6,
            "confidence": 0.5,
            "offers": {
                "markets": ["spot", "on-demand"],
                "quota": {"g4dn.xlarge": {"spot": 2, "on-demand": 1}, "g3.4xlarge": {"spot": 1}},
                "prices": prices,
            },
            "overheads": {"launch": "1s", "restore": "1s"},
        }
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))

    def start(self, *killed_at: str) -> subprocess.Popen[bytes]:
        """Starts the run's first controller.

        Args:
            killed_at: the write at which it dies (see `controller`); none: it lives.
        """
        launcher = "preloaded" if self.trained else "plain"
        return self._start(
            killed_at,
            *("run", "--yes", "--name", _NAME, "--play-gpus", "--launcher", launcher),
            *("--scenario", str(self.folder / "scenario.yaml"), str(self.folder / "job.yaml")),
            *("--", str(self.script), str(self.steps), str(EVERY), str(self.dealt), str(LAST)),
        )

    def resume(self, *killed_at: str) -> subprocess.Popen[bytes]:
        """Starts the next one; the first one again where that was killed before it began."""
        if not (self.place / "ledger.db").exists():
            return self.start(*killed_at)
        return self._start(killed_at, "resume", _NAME)

    def _start(self, killed_at: Sequence[str], *arguments: str) -> subprocess.Popen[bytes]:
        begins = ["-m", "srifty"]
        if killed_at:
            begins = [str(_HERE / "controller.py"), *killed_at]
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, *begins, *arguments],
                env=self.environment,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def let_end(self) -> None:
        """Lets the job make its last steps."""
        self.dealt.with_name("go").touch()

    def ledger(self) -> Ledger:
        """Returns the run's ledger, to be read."""
        return Ledger.read(self.place / "ledger.db")

    def looked(self) -> float:
        """Returns when a controller last looked at its VMs, seconds since 1970; 0: never."""
        heartbeat = self.place / "vms" / "heartbeat"
        return heartbeat.stat().st_mtime if heartbeat.exists() else 0.0

    @property
    def stepper(self) -> str:
        """A word in the command of the processes that make steps."""
        return STEPPERS[self.trained]

    def generation(self) -> int:
        """Returns the number of the newest world; 0: there is none."""
        world = self.place / "vms" / "world.json"
        return json.loads(world.read_text())["generation"] if world.exists() else 0

    def takeovers(self) -> int:
        """Returns how often a controller has said that it goes on with the run."""
        return self._errors.read_text(errors="replace").count("goes on with this run")

    def processes(self, word: str = "") -> list[Process]:
        """Returns the processes of the run's VMs whose command has a word in it."""
        tag = f"{VM_TAG}=".encode()
        own = str(self.folder.resolve()).encode()
        found: list[Process] = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            vm = next((v for v in variables if v.startswith(tag) and own in v), None)
            if vm is not None and word.encode() in command:
                found.append(Process(int(entry.name), Path(vm.decode()).name))
        return sorted(found, key=lambda process: process.pid)

    def kill_all(self) -> None:
        """Kills what is left of the run's VMs."""
        for process in self.processes():
            send(process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Returns the end of what the controllers said."""
        return " | ".join(self._errors.read_text(errors="replace").splitlines()[-3:])


def was_killed(controller: subprocess.Popen[bytes]) -> bool:
    """Returns whether a controller has ended by a kill."""
    return controller.poll() == _KILLED


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal; a process that is gone is passed over."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def until(is_so: Callable[[], object], patience_s: float = 60.0) -> bool:
    """Waits until something is so; returns whether it came to be."""
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > patience_s:
            return False
        time.sleep(0.1)
    return True
