"""One schedule: a run, what is done to it, and what came of it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.checks import problems
from benchmarks.chaos.controller import WHEN
from benchmarks.chaos.lines import lines_of
from benchmarks.chaos.played_run import PlayedRun, Process, send, until, was_killed
from srifty.cloud.clock import Clock
from srifty.cloud.local.links import cut, read_link
from srifty.cloud.local.run_folder import RunFolder, read_json
from srifty.core.events import VmEventKind

KINDS = (
    "kill worker",
    "kill agent",
    "kill controller",
    "kill controller at a write",
    "stop agent",
    "stop worker",
    "cut link",
    "notice",
    "preemption",
    "refused launches",
    "deserted",
)
# What may come beside a schedule's first kind.
_BESIDE = (*KINDS[:6], "notice", "preemption", "refused launches")
_FACTOR = 3.0
_STEPS, _STEP_S = 120, 0.03
_PATIENCE_S = 240.0
_DESERTED_FACTOR = 60.0
_SILENCE_S = 900.0
# Real seconds that a machine full of other work may need to see processes end.
_SLACK_S = 10.0


@dataclass
class Deed:
    """One thing that was done to a run.

    Attributes:
        kind: what.
        is_done: whether it came to it: the run may have ended before.
        noticed_s: real seconds until the controller knew; for a desertion seconds of the run's
            clock until the last VM ended itself. None: not measured.
        resumed_s: real seconds from `resume` to the new controller's being in charge.
    """

    kind: str
    is_done: bool = False
    noticed_s: float | None = None
    resumed_s: float | None = None


@dataclass
class Verdict:
    """What came of one schedule.

    Attributes:
        seed: of the schedule.
        deeds: what was done to the run; the first is what the schedule is about.
        problems: what is not as it must be; empty: nothing.
        seconds: real seconds that it took.
    """

    seed: int
    deeds: list[Deed] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


def can_cut_links() -> bool:
    """Whether this process may make links that can be cut."""
    return os.geteuid() == 0


def schedule(folder: Path, seed: int, *, trained: bool = False) -> Verdict:
    """Runs one schedule.

    Args:
        folder: empty; everything is left there but processes.
        seed: says what is done and when; kinds take turns over the seeds.
        trained: whether the workers train a network, or play it.
    """
    chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
    verdict = Verdict(seed)
    kind = KINDS[seed % len(KINDS)]
    began_s = time.monotonic()
    if kind == "deserted":
        _desert(folder, chance, verdict)
    else:
        beside = chance.choices(_BESIDE, k=chance.choice([0, 1, 1, 2]))
        _Disturbed(folder, chance, verdict, [kind, *beside], trained=trained).run()
    verdict.seconds = time.monotonic() - began_s
    return verdict


class _Disturbed:
    """A run to which things are done, and which must end well all the same."""

    def __init__(
        self,
        folder: Path,
        chance: random.Random,
        verdict: Verdict,
        kinds: list[str],
        *,
        trained: bool,
    ) -> None:
        self._chance = chance
        self._verdict = verdict
        self._kinds = kinds
        vms: list[dict[str, Any]] = []
        for nth, kind in enumerate((k for k in kinds if k in ("notice", "preemption")), 1):
            back = {"nth": nth, "act": "preempt", "at_iteration": chance.randrange(_STEPS - 20)}
            # Notices are heard in real time, whatever the clock.
            vms.append(back | ({"notice": f"{3 * _FACTOR}s"} if kind == "notice" else {}))
        self._run = PlayedRun(
            folder,
            chance,
            factor=_FACTOR,
            steps=_STEPS,
            step_s=_STEP_S,
            vms=vms,
            refuses="refused launches" in kinds,
            links="cut link" in kinds,
            trained=trained,
        )
        at_write = "kill controller at a write"
        # They are done first: the run is begun by a controller that will die so.
        self._writes = [Deed(kind) for kind in kinds if kind == at_write]
        self._acts = [Deed(kind) for kind in kinds if kind != at_write]
        verdict.deeds += [*self._writes, *self._acts]
        self._measures: list[Callable[[], None]] = []
        self._leader = self._run.start(*self._write_to_die_at())

    def run(self) -> None:
        """Runs it to its end, and judges."""
        run, verdict = self._run, self._verdict
        try:
            until(lambda: run.processes() or not self._goes_on())
            for deed in self._acts:
                end_s = time.monotonic() + self._chance.uniform(0.0, 2.5)
                until(lambda end_s=end_s: time.monotonic() > end_s or not self._goes_on())
                self._do(deed)
            run.let_end()
            until(lambda: not self._goes_on(), _PATIENCE_S)
            code = self._leader.poll()
            if code == 0:
                verdict.problems += problems(run)
            else:
                verdict.problems.append(f"ended with {code}: {run.last_words()}")
            for measure in self._measures:
                measure()
        finally:
            self._leader.kill()
            self._leader.wait()
            run.kill_all()

    def _goes_on(self) -> bool:
        """Whether the run has not ended; resumes after a controller that died at a write."""
        deed = next((deed for deed in self._writes if not deed.is_done), None)
        if deed is not None and was_killed(self._leader):
            deed.is_done = True
            self._resume(deed, *self._write_to_die_at())
        return self._leader.poll() is None

    def _write_to_die_at(self) -> tuple[str, ...]:
        if all(deed.is_done for deed in self._writes):
            return ()
        when = self._chance.choice(WHEN)
        return str(1 if when == "asked" else self._chance.randrange(1, 6)), when

    def _resume(self, deed: Deed, *killed_at: str) -> None:
        run = self._run
        begun = (run.place / "ledger.db").exists()
        before = run.takeovers()
        asked_s = time.monotonic()
        self._leader = run.resume(*killed_at)
        until(lambda: run.takeovers() > before or self._leader.poll() is not None or not begun)
        if begun and run.takeovers() > before:
            deed.resumed_s = time.monotonic() - asked_s

    def _do(self, deed: Deed) -> None:
        """Does something to the run now, unless it has ended."""
        match deed.kind:
            case "kill controller":
                if self._goes_on():
                    self._leader.kill()
                    self._leader.wait()
                    deed.is_done = True
                    time.sleep(self._chance.uniform(0.0, 1.0))
                    self._resume(deed)
            case "kill agent" | "stop agent":
                self._signal(deed, "local.agent", self._when_lost)
            case "kill worker" | "stop worker":
                self._signal(deed, self._run.stepper, self._when_ended)
            case "cut link":
                self._cut(deed)
            case _:
                # The scenario does it; what it did is in the journal.
                self._measures.append(lambda: self._look_up(deed))

    def _find(self, word: str) -> Process | None:
        """Returns a process of a VM, once there is one; None: the run ended before."""
        found: list[Process] = []
        while not found and self._goes_on():
            found = self._run.processes(word)
            time.sleep(0.0 if found else 0.1)
        return self._chance.choice(found) if found else None

    def _signal(
        self, deed: Deed, word: str, when: Callable[[Process], Callable[[], float | None]]
    ) -> None:
        process = self._find(word)
        if process is None:
            return
        number = signal.SIGKILL if deed.kind.startswith("kill") else signal.SIGSTOP
        self._note(deed, when(process))
        send(process.pid, number)
        if number == signal.SIGSTOP and self._chance.random() < 0.25:
            time.sleep(self._chance.uniform(0.2, 3.0))
            send(process.pid, signal.SIGCONT)

    def _cut(self, deed: Deed) -> None:
        # Once there are workers, their VMs have links.
        process = self._find(self._run.stepper)
        if process is None:
            return
        request = read_json(RunFolder(self._run.place / "vms").vm(process.vm).request)
        link = None if request is None else read_link(request["link"])
        if link is None:
            return
        self._note(deed, self._when_lost(process))
        deed.is_done = cut(link)
        if self._chance.random() < 0.25:
            time.sleep(self._chance.uniform(0.2, 3.0))
            cut(link, restore=True)

    def _note(self, deed: Deed, when: Callable[[], float | None]) -> None:
        """Has the time until something was noticed be taken after the run's end."""
        deed.is_done = True
        acted_s = time.time()

        def measure() -> None:
            noticed_s = when()
            if noticed_s is not None:
                deed.noticed_s = noticed_s - acted_s

        self._measures.append(measure)

    def _when_lost(self, process: Process) -> Callable[[], float | None]:
        """Returns what tells when a VM was known to be lost, seconds since 1970."""
        acted_s = self._at_s(time.time())

        def when() -> float | None:
            with self._run.ledger() as ledger:
                events = ledger.events()
            ends = [e for e in events if e.vm == process.vm and e.at_s >= acted_s]
            # One that was let go before, or that recovered, was not lost by this.
            if not ends or ends[0].kind is not VmEventKind.LOST:
                return None
            return self._unix_s(ends[0].at_s)

        return when

    def _when_ended(self, process: Process) -> Callable[[], float | None]:
        """Returns what tells when a world was given up, seconds since 1970."""
        del process
        generation = self._run.generation()
        acted_s = self._at_s(time.time())

        def when() -> float | None:
            with self._run.ledger() as ledger:
                steps = ledger.steps()
            ends = [
                step.begun_s
                for step in steps
                if step.kind == "end-world" and step.document["generation"] == generation
            ]
            is_known = bool(ends) and ends[0] >= acted_s
            return self._unix_s(ends[0]) if is_known else None

        return when

    def _look_up(self, deed: Deed) -> None:
        """Says whether what the scenario was to do came to it."""
        kinds = {
            "notice": VmEventKind.NOTICE,
            "preemption": VmEventKind.PREEMPTED,
            "refused launches": VmEventKind.FAILED,
        }
        journal = lines_of(self._run.place / "vms" / "journal.jsonl")
        deed.is_done = any(line["kind"] == kinds[deed.kind] for line in journal)

    def _at_s(self, unix_s: float) -> float:
        with self._run.ledger() as ledger:
            return (unix_s - ledger.run().began_unix_s) * _FACTOR

    def _unix_s(self, at_s: float) -> float:
        with self._run.ledger() as ledger:
            return ledger.run().began_unix_s + at_s / _FACTOR


def _desert(folder: Path, chance: random.Random, verdict: Verdict) -> None:
    """Runs a job whose controller is killed and never comes back: all its VMs must end."""
    deed = Deed("deserted")
    verdict.deeds.append(deed)
    run = PlayedRun(folder, chance, factor=_DESERTED_FACTOR, steps=10**5, step_s=0.1)
    leader = run.start()
    try:
        until(lambda: run.processes() or leader.poll() is not None)
        time.sleep(chance.uniform(0.0, 2.0))
        leader.kill()
        leader.wait()
        deed.is_done = True
        heard_s = run.looked()
        silence_s = _SILENCE_S / _DESERTED_FACTOR
        if not until(lambda: not run.processes(), silence_s + _SLACK_S):
            verdict.problems.append(
                f"{len(run.processes())} processes are left "
                f"{(time.time() - heard_s) * _DESERTED_FACTOR:.0f} s after their controller"
            )
        with run.ledger() as ledger:
            clock = Clock(ledger.run().began_unix_s, _DESERTED_FACTOR)
        journal = lines_of(run.place / "vms" / "journal.jsonl")
        ended_s = [line["stopped_s"] for line in journal if line["stopped_s"] is not None]
        deed.noticed_s = max(ended_s) - clock.at_s(heard_s) if ended_s else None
    finally:
        leader.kill()
        leader.wait()
        run.kill_all()
