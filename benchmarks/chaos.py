"""Runs that are disturbed at random: `python -m benchmarks.chaos --schedules 100`.

Each schedule is a small job on the local back end, through the public commands, while workers,
agents and controllers are killed, agents and workers are stopped (SIGSTOP), VMs are taken back with
and without a notice, and launches fail. After a controller that was killed comes `srifty resume`.
Of each run is checked that the job ended, that every sample of every step was dealt to exactly one
worker, that the ledger's bill is that of the VMs' own journal to the cent, and that no process is
left. With `--deserted`, the controller is killed and never comes back: no VM may be left 15 minutes
(of a fast clock) later. The workers need no torch.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from srifty.cloud.local.processes import VM_TAG

_WORKER = Path(__file__).with_name("chaos_worker.py")
_BATCH, _STEPS, _EVERY = 64, 60, 10
_PATIENCE_S = 240.0
_ACTS = ("kill worker", "kill agent", "kill controller", "stop agent", "stop worker")


@dataclass
class Verdict:
    """What came of one schedule.

    Attributes:
        seed: of the schedule.
        acts: what was done to the run.
        problems: what is not as it must be; empty: nothing.
        seconds: real seconds that it took.
        resumed_s: real seconds from each `resume` to the new controller's first look.
    """

    seed: int
    acts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    resumed_s: list[float] = field(default_factory=list)


def main() -> None:
    """Runs schedules and prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deserted", action="store_true")
    chosen = parser.parse_args()
    verdicts: list[Verdict] = []
    for seed in range(chosen.seed, chosen.seed + chosen.schedules):
        with tempfile.TemporaryDirectory() as folder:
            run = deserted if chosen.deserted else disturbed
            verdict = run(Path(folder), seed)
        verdicts.append(verdict)
        words = "; ".join(verdict.problems) or "well"
        print(f"{seed:4} {verdict.seconds:6.1f} s  {', '.join(verdict.acts)}: {words}", flush=True)
    bad = [verdict for verdict in verdicts if verdict.problems]
    resumed = [seconds for verdict in verdicts for seconds in verdict.resumed_s]
    print(f"{len(verdicts) - len(bad)} of {len(verdicts)} schedules ended as they must")
    if resumed:
        print(f"{len(resumed)} controllers resumed, the slowest within {max(resumed):.1f} s")
    sys.exit(bool(bad))


def disturbed(folder: Path, seed: int, acts: int = 3) -> Verdict:
    """Runs one schedule; see the module."""
    chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
    verdict = Verdict(seed)
    began_s = time.monotonic()
    run = _Run(folder, chance)
    controller = run.start()
    try:
        _until(lambda: run.processes(_WORKER.name) or controller.poll() is not None)
        for _ in range(acts):
            time.sleep(chance.uniform(0.5, 2.5))
            act = chance.choice(_ACTS)
            if controller.poll() is not None:
                break
            if act == "kill controller":
                controller.kill()
                controller.wait()
                verdict.acts.append(act)
                time.sleep(chance.uniform(0.0, 1.0))
                asked_s = time.monotonic()
                controller = run.resume()
                if run.wait_for_look(controller):
                    verdict.resumed_s.append(time.monotonic() - asked_s)
            elif run.disturb(act):
                verdict.acts.append(act)
        try:
            code = controller.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            controller.kill()
            code = None
        if code != 0:
            verdict.problems.append(f"ended with {code}: {run.last_words()}")
        verdict.problems += run.problems()
    finally:
        controller.kill()
        controller.wait()
        _kill(run.processes())
    verdict.seconds = time.monotonic() - began_s
    return verdict


def deserted(folder: Path, seed: int) -> Verdict:
    """Runs a job whose controller is killed and never comes back."""
    chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
    verdict = Verdict(seed, ["desert"])
    began_s = time.monotonic()
    run = _Run(folder, chance, factor=60.0, steps=10**6)
    controller = run.start()
    try:
        _until(lambda: len(run.processes()) > 2)
        time.sleep(chance.uniform(0.0, 3.0))
        controller.kill()
        controller.wait()
        if not _until(lambda: not run.processes(), 900 / 60 + 10):
            verdict.problems.append("VMs are left 15 minutes after their controller")
    finally:
        controller.kill()
        controller.wait()
        _kill(run.processes())
    verdict.seconds = time.monotonic() - began_s
    return verdict


class _Run:
    """One run in a folder."""

    def __init__(
        self, folder: Path, chance: random.Random, factor: float = 1.0, steps: int = _STEPS
    ) -> None:
        self._folder = folder
        self._chance = chance
        self._steps = steps
        self._place = folder / "runs" / "chaos"
        self._errors = folder / "errors"
        self._environment = {
            **os.environ,
            "SRIFTY_RUNS": str(folder / "runs"),
            "SRIFTY_CATALOG": str(folder / "catalog.csv"),
        }
        profile = {
            "format": "srifty-profile/1",
            "workload": "chaos",
            "source": "made up",
            "max_batch": 64,
            "latencies": [
                {"batch": 8, "forward_s": 0.03, "backward_s": 0.05},
                {"batch": 64, "forward_s": 0.06, "backward_s": 0.10},
            ],
            "gradients": [{"name": "all", "bytes": 4, "ready": 1.0}],
        }
        for gpu in ("T4", "M60"):
            (folder / f"{gpu}.json").write_text(json.dumps(profile | {"gpu": gpu}))
        job = {
            "name": "chaos",
            "workload": ["T4.json", "M60.json"],
            "global_batch": _BATCH,
            "iterations": steps,
            "minimize": "time",
            "budget_usd": 100,
            "confidence": 0.5,
            "offers": {
                "markets": ["spot", "on-demand"],
                "quota": {"g4dn.xlarge": {"spot": 2, "on-demand": 1}, "g3.4xlarge": {"spot": 1}},
                "prices": {
                    "g4dn.xlarge": {"spot": 0.2, "on-demand": 0.5},
                    "g3.4xlarge": {"spot": 0.3},
                },
            },
            "overheads": {"launch": "1s", "restore": "1s"},
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        answers = [chance.choice([None, None, "InsufficientInstanceCapacity"]) for _ in range(3)]
        vms = []
        if chance.random() < 0.5:
            at = {"nth": 1, "act": "preempt", "at_iteration": chance.randrange(5, 50)}
            vms.append(at | ({"notice": "3s"} if chance.random() < 0.5 else {}))
        pools = [
            {"type": "g4dn.xlarge", "market": "spot", "boot": "0.5s", "answers": answers,
             "vms": vms},
            {"boot": "0.5s"},
        ]  # fmt: skip
        scenario = {"clock_factor": factor, "pools": pools}
        (folder / "scenario.yaml").write_text(yaml.safe_dump(scenario))

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the run's first controller."""
        return self._start(
            *("run", "--yes", "--name", "chaos", "--play-gpus", "--launcher", "plain"),
            *("--scenario", str(self._folder / "scenario.yaml"), str(self._folder / "job.yaml")),
            *("--", str(_WORKER), str(self._steps), str(_EVERY), str(self._folder / "dealt")),
        )

    def resume(self) -> subprocess.Popen[bytes]:
        """Starts the next one."""
        if not (self._place / "ledger.db").exists():
            return self.start()  # killed before it had begun anything
        self._looked = self._heartbeat()
        return self._start("resume", "chaos")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self._errors.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "srifty", *arguments],
                env=self._environment,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def _heartbeat(self) -> float:
        heartbeat = self._place / "vms" / "heartbeat"
        return heartbeat.stat().st_mtime if heartbeat.exists() else 0.0

    def wait_for_look(self, controller: subprocess.Popen[bytes]) -> bool:
        """Waits until a new controller has looked at its VMs; returns whether it has."""
        before = getattr(self, "_looked", None)
        if before is None:
            return False
        _until(lambda: self._heartbeat() != before or controller.poll() is not None, 60)
        return self._heartbeat() != before

    def processes(self, word: str = "") -> list[int]:
        """Returns the processes of the run's VMs whose command has a word in it."""
        tag = f"{VM_TAG}=".encode()
        own = str(self._folder.resolve()).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            is_ours = any(v.startswith(tag) and own in v for v in variables)
            if is_ours and word.encode() in command:
                found.append(int(entry.name))
        return sorted(found)

    def disturb(self, act: str) -> bool:
        """Does something to a process of the run; returns whether there was one."""
        word = "local.agent" if "agent" in act else _WORKER.name
        found = self.processes(word)
        if not found:
            return False
        number = signal.SIGKILL if "kill" in act else signal.SIGSTOP
        os.kill(self._chance.choice(found), number)
        return True

    def problems(self) -> list[str]:
        """Returns what is not as it must be after the end."""
        found = self._wrong_samples()
        answer = subprocess.run(
            [sys.executable, "-m", "srifty", "status", "chaos", "--json"],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode != 0:
            return [*found, f"no status: {answer.stderr}"]
        found += self._wrong_bill(json.loads(answer.stdout))
        if not _until(lambda: not self.processes(), 20):
            found.append(f"{len(self.processes())} processes are left")
        return found

    def _wrong_samples(self) -> list[str]:
        """Checks that in the world that made a step for good, each sample was dealt once."""
        made: dict[int, dict[float, list[tuple[int, int]]]] = {}
        for file in (self._folder / "dealt").glob("*"):
            for line in _lines(file):
                of_step = made.setdefault(line["step"], {})
                of_step.setdefault(line["at"], []).append((line["first"], line["count"]))
        found = []
        for step in range(self._steps):
            entries = sorted(made.get(step, {}).items(), reverse=True)
            parts = [part for _, group in entries for part in group]
            if not _covers(parts):
                found.append(f"step {step}: samples lost or dealt twice")
        return found[:3]

    def _wrong_bill(self, status: dict[str, Any]) -> list[str]:
        """Checks the ledger's bill against what the VMs' journal says."""
        lines = _lines(self._place / "vms" / "journal.jsonl")
        usd = 0.0
        for line in status["bill"]:
            own = [entry for entry in lines if entry["vm"] == line["name"]]
            running = [entry["at_s"] for entry in own if entry["kind"] == "launched"]
            stopped = [e["stopped_s"] for e in own if e["stopped_s"] is not None]
            taken = any(entry["kind"] == "preempted" for entry in own)
            request = json.loads(
                (self._place / "vms" / "vms" / line["name"] / "request.json").read_text()
            )
            if not running:
                continue
            if not stopped:
                return [f"{line['name']} has no end"]
            ran_s = stopped[0] - running[0]
            if taken and request["market"] == "spot" and ran_s < 3600:
                continue  # free: taken back within its first hour
            usd += max(60.0, -(-ran_s // 1)) * request["usd_per_hour"] / 3600
        if abs(usd - status["spent_usd_total"]) >= 0.005:
            return [f"the ledger says {status['spent_usd_total']:.4f} USD, the journal {usd:.4f}"]
        return []

    def last_words(self) -> str:
        """Returns the end of what the controllers said."""
        return " | ".join(self._errors.read_text(errors="replace").splitlines()[-3:])


def _covers(parts: Sequence[tuple[int, int]]) -> bool:
    """Whether the newest parts, taken until they reach the global batch, are exactly that."""
    chosen: list[tuple[int, int]] = []
    for part in parts:
        if sum(count for _, count in chosen) >= _BATCH:
            break
        chosen.append(part)
    end = 0
    for first, count in sorted(chosen):
        if first != end:
            return False
        end = first + count
    return end == _BATCH


def _lines(file: Path) -> list[dict[str, Any]]:
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # empty, or torn by a kill
    return found


def _until(is_so: Callable[[], object], patience_s: float = 60.0) -> bool:
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > patience_s:
            return False
        time.sleep(0.1)
    return True


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
