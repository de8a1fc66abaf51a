"""A small job on the local back end, with workers that need no torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher, LocalBackend
from srifty.cloud.local.processes import kill_all, tagged
from srifty.cloud.local.run_folder import RunFolder
from srifty.control.controller import Controller
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.records import RunRecord
from srifty.control.run_order import Outcome, RunOrder, RunRule
from srifty.core import Job, Limits, Location, Market, Offer, Overheads
from srifty.core.scenario import PoolScript, Scenario
from srifty.planner import BatchRange
from srifty.simulator import Simulator
from tests.builders import LinearAllreduce, make_job, make_latency, make_profile, make_type

WORKER = str(Path(__file__).with_name("played_worker.py"))
ZONE = Location("us-east-1", "us-east-1a")
SMALL = make_type("a1.small", gpu="A", gpus=1)
LARGE = make_type("b1.large", gpu="B", gpus=2)
RULE = RunRule(tick_s=0.05, note_s=0.5, save_s=20.0)


def offers(small: int = 2, large: int = 2, on_demand: int = 2) -> tuple[Offer, ...]:
    return (
        Offer(SMALL, Market.SPOT, ZONE, 0.30, small, "made up"),
        Offer(LARGE, Market.SPOT, ZONE, 0.90, large, "made up"),
        Offer(SMALL, Market.ON_DEMAND, ZONE, 1.00, on_demand, "made up"),
    )


def job(iterations: int = 40, launch_s: float = 5.0, **limits) -> Job:
    return make_job(
        make_profile("A"),
        make_profile("B"),
        iterations=iterations,
        limits=Limits(**{"budget_usd": 50.0, "confidence": 0.5} | limits),
        overheads=Overheads(launch_s=launch_s, restore_s=1.0),
    )


@dataclass
class PlayedRun:
    """A run in a folder: may be controlled by one controller after another."""

    folder: Path
    job: Job = field(default_factory=job)
    scripts: tuple[PoolScript, ...] = ()
    offers: tuple[Offer, ...] = field(default_factory=offers)
    factor: float = 1.0
    every: int = 5
    rule: RunRule = RULE
    stops: list[int] = field(default_factory=lambda: [0])
    told: list[str] = field(default_factory=list)
    tell: Callable[[str], None] | None = None
    steps: int | None = None
    per_sample_s: float = 0.0
    kill_after: int | None = None
    preflight: tuple[str, ...] | None = None

    @property
    def planning(self) -> Planning:
        latencies = {
            "A": make_latency("A", (0.01, self.per_sample_s), (0.02, self.per_sample_s)),
            "B": make_latency("B", (0.01, self.per_sample_s), (0.02, self.per_sample_s)),
        }
        return Planning(
            self.job,
            self.offers,
            Simulator(latencies, LinearAllreduce()),
            {gpu: BatchRange(1, 1, 64) for gpu in latencies},
            latencies,
        )

    def ledger(self) -> Ledger:
        path = self.folder / "ledger.db"
        if path.exists():
            return Ledger.open(path)
        return Ledger.create(
            path,
            RunRecord(
                "run-1", "me", "local", time.time(), self.factor,
                {"iterations": self.job.iterations},
            ),
        )  # fmt: skip

    def backend(self, ledger: Ledger) -> LocalBackend:
        record = ledger.run()
        clock = Clock(record.began_unix_s, record.clock_factor)
        return LocalBackend(
            self.folder / "vms", clock, Scenario(self.scripts), launcher=Launcher.PLAIN
        )

    def controller(self, ledger: Ledger) -> Controller:
        record = ledger.run()
        order = RunOrder(
            "run-1",
            "me",
            (WORKER, str(self.steps or self.job.iterations), str(self.every)),
            hard_end_s=1e6,
            plays_gpus=True,
            checkpoint_folder=self.folder / "vms" / "checkpoints",
            preflight=self.preflight,
        )
        return Controller(
            self.planning,
            order,
            self.backend(ledger),
            ledger,
            Clock(record.began_unix_s, record.clock_factor),
            rule=self.rule,
            is_asked_to_stop=lambda: self.stops[0],
            tell=self.tell or self.told.append,
        )

    def run(self) -> Outcome:
        """Has a controller control the run; one that `kill_after` looks ends as if killed."""
        with self.ledger() as ledger:
            controller = self.controller(ledger)
            if self.kill_after is None:
                return controller.run()
            for _ in range(self.kill_after):
                controller.look()
                time.sleep(self.rule.tick_s)
            raise KeyboardInterrupt

    def processes(self) -> list[int]:
        """The processes of all its VMs."""
        vms = RunFolder((self.folder / "vms").resolve()).all_vms()
        return [pid for files in vms for pid in tagged(files.tag)]

    def is_gone(self) -> bool:
        """Whether nothing is left of its VMs, once those that said so have ended."""
        for _ in range(600):
            if not self.processes():
                return True
            time.sleep(0.05)
        return False

    def close(self) -> None:
        kill_all(self.processes())
