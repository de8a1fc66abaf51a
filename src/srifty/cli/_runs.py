"""What the commands of a run share: where runs are kept, and how one is gone on with."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from srifty.cli._cluster_file import project_of_google
from srifty.cli._digest import digest_of
from srifty.cli._workbench import Workbench, open_job
from srifty.cli.main import EXIT_CLOUD_REFUSED, EXIT_UNFINISHED
from srifty.cli.start import EXIT_INTERRUPTED
from srifty.cloud.backend import SILENCE_S, Backend
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher, LocalBackend
from srifty.cloud.locks import holder
from srifty.cloud.ray_backend import Nodes, RayBackend, RaySession, is_head
from srifty.control.controller import Controller
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.records import RunRecord
from srifty.control.run_order import Ending, Outcome, RunOrder, RunRule
from srifty.core.job import Job
from srifty.core.scenario import Scenario
from srifty.errors import InputError
from srifty.files.scenario_file import read_scenario
from srifty.units import format_duration

_VARIABLE = "SRIFTY_RUNS"
_BACKENDS = ("local", "ray")
# What VMs try before they train together: sizes around those at which mixed hosts have hung.
_SWEEP = ("-m", "srifty.training.pair_sweep")

EXIT_MONEY = 6
EXIT_CODES = {
    Ending.FINISHED: 0,
    Ending.UNFINISHED: EXIT_UNFINISHED,
    Ending.REFUSED: EXIT_CLOUD_REFUSED,
    Ending.MONEY: EXIT_MONEY,
    Ending.STOPPED: EXIT_INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The folder of a run.

    Attributes:
        path: the folder; its name is the run's.
    """

    path: Path

    @property
    def ledger(self) -> Path:
        """The run's ledger."""
        return self.path / "ledger.db"

    @property
    def backend(self) -> Path:
        """What the back end keeps."""
        return self.path / "vms"

    @property
    def stop(self) -> Path:
        """The file whose being there asks the controller to save and release everything."""
        return self.path / "stop"

    @property
    def controller(self) -> int | None:
        """The process that controls the run; None: none does."""
        return holder(self.ledger.with_name(f"{self.ledger.name}.lock"))


def runs_folder() -> Path:
    """Returns where runs are kept: `SRIFTY_RUNS`, or the user's data folder."""
    named = os.environ.get(_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "srifty" / "runs"


def find_run(name: str) -> RunPlace:
    """Returns a run by its name, or by the path of its folder.

    Raises:
        InputError: there is no such run.
    """
    folder = runs_folder()
    for path in (folder / name, Path(name)):
        if (path / "ledger.db").exists():
            return RunPlace(path)
    known = sorted(entry.parent.name for entry in folder.glob("*/ledger.db"))
    have = f"there are {', '.join(known[-5:])}" if known else "there are none"
    raise InputError(f"no run {name!r} in {folder}: {have}", "RUN")


def planning_of(bench: Workbench, job: Job) -> Planning:
    """Returns what plans for a job of a workbench are made from."""
    return Planning(
        job,
        bench.catalog.offers,
        bench.simulator,
        bench.batch_ranges,
        bench.latencies,
        allow_cross_zone=bench.file.allow_cross_zone,
        prefer=bench.file.prefer,
    )


def capped(job: Job, max_cost_usd: float | None) -> Job:
    """Returns the job with its budget no higher than a cap.

    Raises:
        InputError: there is neither.
    """
    known = [usd for usd in (job.limits.budget_usd, max_cost_usd) if usd is not None]
    if not known:
        raise InputError(
            "nothing says how much this run may cost: set budget_usd in the job file, or give "
            "--max-cost USD"
        )
    return replace(job, limits=replace(job.limits, budget_usd=min(known)))


def make_backend(
    name: str,
    folder: Path,
    clock: Clock,
    scenario: Scenario,
    launcher: Launcher,
    *,
    cloud: str,
) -> Backend:
    """Returns the back end of a name.

    Args:
        name: `local` or `ray`.
        folder: what the back end keeps; of one run alone.
        clock: the run's.
        scenario: how the played cloud of `local` behaves.
        launcher: what starts the workers of `local`.
        cloud: where `ray` rents.

    Raises:
        InputError: there is none of that name.
    """
    match name:
        case "local":
            return LocalBackend(folder, clock, scenario, launcher=launcher)
        case "ray":
            session = RaySession(str(folder.resolve()))
            # Where there is no cluster, what is shown is what would be rented.
            are_rented = is_head() or not session.is_there()
            nodes = Nodes(are_rented, cloud, project_of_google())
            return RayBackend(folder, clock, session, nodes=nodes)
        case _:
            raise InputError(f"{name!r} is no back end; use {' or '.join(_BACKENDS)}", "--backend")


def check_backend(name: str) -> None:
    """Sees that a back end can be used from here, before anything is written or asked for.

    Raises:
        InputError: there is none of that name, or Ray is not installed.
        CloudRefused: there is no Ray cluster.
    """
    if name not in _BACKENDS:
        raise InputError(f"{name!r} is no back end; use {' or '.join(_BACKENDS)}", "--backend")
    if name == "ray":
        RaySession("").resources()


def scenario_of(path: str | None) -> Scenario:
    """Returns what a scenario file says; without one, everything is granted at once."""
    return Scenario() if path is None else read_scenario(Path(path))


def checkpoints_of(checkpoint: str | None, place: RunPlace) -> Path | None:
    """Returns the folder where a run's checkpoints can be seen from here; None: nowhere.

    Args:
        checkpoint: what the job file says.
        place: of the run.
    """
    if checkpoint is None:
        return place.backend / "checkpoints"
    return None if "://" in checkpoint else Path(checkpoint)


def order_of(record: RunRecord, bench: Workbench, place: RunPlace) -> RunOrder:
    """Returns what a run was ordered to do."""
    document = record.document
    settings = bench.file.settings
    return RunOrder(
        record.run_id,
        record.user,
        tuple(document["command"]),
        document["hard_end_s"],
        settings,
        plays_gpus=document["plays_gpus"],
        checkpoint_folder=checkpoints_of(settings.checkpoint, place),
        preflight=_SWEEP if document["preflight"] else None,
    )


def reopened_job(record: RunRecord) -> tuple[Workbench, Job]:
    """Returns the workbench of a run's job file, and the job as it is run.

    Raises:
        InputError: the job file is another than when the run began.
    """
    document = record.document
    path = Path(document["job"])
    if digest_of(path) != document["digest"]:
        raise InputError(
            "is not what it was when the run began; put it back, or release the run's VMs with "
            f"srifty stop {record.run_id}",
            str(path),
        )
    bench = open_job(path, document["changes"])
    return bench, capped(bench.job, document["cap_usd"])


def control(
    place: RunPlace,
    ledger: Ledger,
    planning: Planning,
    order: RunOrder,
    tell: Callable[[str], None],
) -> Outcome:
    """Runs the controller to the end; Ctrl-C, SIGTERM and the stop file have it release all."""
    record = ledger.run()
    clock = Clock(record.began_unix_s, record.clock_factor)
    backend = make_backend(
        record.backend,
        place.backend,
        clock,
        scenario_of(record.document["scenario"]),
        Launcher(record.document["launcher"]),
        cloud=record.document["cloud"],
    )
    rule = RunRule(tick_s=0.5 if record.clock_factor <= 2 else 0.2)
    with counted_signals() as received:
        controller = Controller(
            planning,
            order,
            backend,
            ledger,
            clock,
            rule=rule,
            is_asked_to_stop=lambda: len(received) + place.stop.exists(),
            tell=tell,
        )
        try:
            return controller.run()
        except Exception as error:
            error.add_note(
                "the run's VMs may be there still, and train on; without a controller they end "
                f"themselves after {format_duration(SILENCE_S)}: srifty resume {record.run_id} "
                f"goes on with the run, srifty stop {record.run_id} saves and releases everything"
            )
            raise


def ask(question: str) -> bool:
    """Asks the person at the terminal.

    Raises:
        InputError: there is none.
    """
    if not sys.stdin.isatty():
        raise InputError("nobody can be asked here; give --yes to go on without", "--yes")
    return typer.confirm(question, err=True)


def run_name(job: str) -> str:
    """Returns a new run's name, made of a job's and the time: letters, digits and hyphens."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", job).strip("-") or "run"
    return f"{plain}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def ended(outcome: Mapping[str, Any]) -> int:
    """Returns the exit code of how a run ended."""
    return EXIT_CODES[Ending(outcome["ending"])]


def tell(words: str) -> None:
    """Prints a line for people."""
    typer.echo(words, err=True)


@contextmanager
def counted_signals() -> Generator[list[int]]:
    """Notes Ctrl-C and SIGTERM instead of ending the process."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        words = "once more: not waiting" if len(received) > 1 else "saving, releasing everything"
        os.write(2, f"\n{words}\n".encode())

    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
