"""`srifty run`: rent the VMs of a job's plan, train there, watch, and re-plan."""

from __future__ import annotations

import getpass
import importlib.util
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from srifty import __version__
from srifty.catalog.price import Price
from srifty.cli._cluster_file import cluster_commands, cluster_text
from srifty.cli._digest import digest_of
from srifty.cli._json import dump, plan_document, plan_result_document
from srifty.cli._live_prices import (
    MOST_RISE,
    at_prices,
    differences,
    price_records,
    prices_now,
)
from srifty.cli._options import (
    AsJson,
    BackendName,
    Changes,
    JobPath,
    LauncherName,
    MaxCost,
    NewRunName,
    ScenarioPath,
    Yes,
)
from srifty.cli._run_show import show_outcome
from srifty.cli._runs import (
    RunPlace,
    ask,
    capped,
    check_backend,
    checkpoints_of,
    control,
    ended,
    make_backend,
    order_of,
    planning_of,
    run_name,
    runs_folder,
    scenario_of,
    tell,
)
from srifty.cli._show import console_for_results, describe_group, show_result
from srifty.cli._workbench import Workbench, open_job
from srifty.cli.plan import EXIT_NO_PLAN
from srifty.cloud.backend import LaunchRequest, VmRequest
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher
from srifty.control.ledger import Ledger
from srifty.control.planning import Planning
from srifty.control.records import RunRecord
from srifty.control.summary import summary
from srifty.core.events import Pool
from srifty.core.plan import Plan, PlanResult
from srifty.errors import InputError
from srifty.units import format_duration, format_usd

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

# VMs end themselves when a run has lasted so many times as long as forecast (95 %) or as its
# deadline allows, and half an hour.
_PATIENCE = 3.0
_GRACE_S = 1800.0
# A run's name is that of a folder, and part of tags and tokens.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class _Offer:
    """A plan as it is offered to the user.

    Attributes:
        plan: the plan.
        hard_end_s: seconds since the command at which all VMs end themselves.
        worst_usd: what the run can cost at most, dollars in total.
    """

    plan: Plan
    hard_end_s: float
    worst_usd: float


@app.command(
    epilog="Example: srifty run job.yaml --max-cost 5 -- train.py --lr 0.1",
    context_settings={"allow_interspersed_args": False},
)
def run_command(
    job_path: JobPath,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- SCRIPT [ARGS]", help="What torchrun starts on the VMs."),
    ] = None,
    changes: Changes = None,
    backend: BackendName = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the exact request; rent nothing.")
    ] = False,
    yes: Yes = False,
    max_cost: MaxCost = None,
    name: NewRunName = None,
    live_prices: Annotated[
        str | None,
        typer.Option(
            metavar="aws|off|PRICES.csv",
            help="What VMs cost today, checked before launch: asked of AWS (where the extra aws "
            "and credentials are there), not at all, or from a file in the catalog's format. "
            "If left out: aws for VMs of AWS, off for --backend local.",
        ),
    ] = None,
    scenario: ScenarioPath = None,
    play_gpus: Annotated[
        bool,
        typer.Option("--play-gpus", help="local: hold steps to the pace of the planned GPUs."),
    ] = False,
    launcher: LauncherName = Launcher.TORCHRUN,
    preflight: Annotated[
        bool,
        typer.Option(
            "--preflight",
            help="Before a plan with several types is paid for, try an exchange between one VM of "
            "each; needs torch there.",
        ),
    ] = False,
    cluster_path: Annotated[
        Path | None,
        typer.Option(
            "--cluster-file",
            metavar="CLUSTER.yaml",
            help="ray: write the cluster file for this run, which ray up takes; rent nothing.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rent the VMs of a job's plan, train there, watch, and re-plan.

    The options stand before the job file. Ctrl-C saves and releases everything.

    Exits with 3 where no plan meets the limits, 4 where the job did not finish, 5 where the cloud
    refused, 6 where the money was spent.
    """
    command = _command_of(command or [])
    if name is not None and not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a run; use letters, digits, and . _ - after the first", "--name"
        )
    _check_options(backend, scenario, launcher, cluster_path)
    played = scenario_of(None if scenario is None else str(scenario))
    bench = open_job(job_path, changes or ())
    if backend == "local":
        _require_script(command, Path(bench.file.settings.workdir))
    job = capped(bench.job, max_cost)
    planning = planning_of(bench, job)
    result = planning.first()
    if result.plan is None:
        _no_plan(bench, result, as_json=as_json)
    prices = prices_now(live_prices, planning.offers, backend=backend, tell=tell)
    planning, result = _at_live_prices(planning, result, prices, yes=yes)
    if result.plan is None:
        _no_plan(bench, result, as_json=as_json)
    offer = _offer_of(planning, result.plan)
    run_id = name or run_name(job.name)
    place = RunPlace((runs_folder() / run_id).resolve())
    if cluster_path is not None:
        cluster_path.write_text(
            cluster_text(bench, planning.offers, run_id, offer.hard_end_s, job_path), "utf-8"
        )
        _show_offer(planning, offer)
        options = [word for change in changes or () for word in ("--set", change)]
        if max_cost is not None:
            options += ["--max-cost", str(max_cost)]
        if preflight:
            options += ["--preflight"]
        for line in cluster_commands(cluster_path, run_id, options, job_path, command):
            typer.echo(line)
        return
    if dry_run:
        _show_request(bench, planning, offer, run_id, backend, launcher, as_json=as_json)
        return
    check_backend(backend)
    if place.ledger.exists():
        raise InputError(f"there is a run {run_id!r} already; resume it, or name another", "--name")
    _confirm(planning, offer, yes=yes)
    if backend == "local" and launcher is Launcher.TORCHRUN:
        _require_torchrun()
    seen = checkpoints_of(bench.file.settings.checkpoint, place)
    record = RunRecord(
        run_id,
        getpass.getuser(),
        backend,
        time.time(),
        played.clock_factor,
        {
            "srifty": __version__,
            "job": str(job_path.resolve()),
            "digest": digest_of(job_path),
            "changes": list(changes or ()),
            "command": _absolute(command),
            "hard_end_s": offer.hard_end_s,
            "cap_usd": job.limits.budget_usd,
            "deadline_s": job.limits.deadline_s,
            "iterations": job.iterations,
            "extra_usd_per_hour": job.extra_usd_per_hour,
            "plays_gpus": play_gpus,
            "launcher": launcher.value,
            "preflight": preflight,
            "prices": price_records(prices),
            "scenario": None if scenario is None else str(scenario.resolve()),
            "cloud": bench.file.supply.cloud,
            "checkpoints": None if seen is None else str(seen.absolute()),
        },
    )
    with Ledger.create(place.ledger, record) as ledger:
        tell(f"run {run_id}; see it with: srifty watch {run_id}")
        ledger.note_forecast(plan_document(offer.plan), 0.0)
        outcome = control(place, ledger, planning, order_of(record, bench, place), tell)
        document = summary(ledger, outcome.at_s, is_controlled=False)
    if as_json:
        typer.echo(dump(document))
    else:
        show_outcome(console_for_results(), document)
    raise typer.Exit(ended({"ending": outcome.ending}))


def _command_of(words: list[str]) -> list[str]:
    """Returns the script and its arguments: what stands behind the job file.

    The parser leaves all of it alone, "--" included.

    Raises:
        InputError: there is nothing, or an option of this command's.
    """
    if words and words[0] != "--" and words[0].startswith("-"):
        raise InputError(
            f"{words[0]} stands behind the job file, where the script begins; options come before: "
            f"srifty run {words[0]} ... job.yaml -- train.py"
        )
    command = words[1:] if words and words[0] == "--" else words
    if not command:
        raise InputError("say what to train with: srifty run job.yaml -- train.py", "SCRIPT")
    return command


def _require_script(command: list[str], workdir: Path) -> None:
    """Refuses a script that is not there, before anything is paid for.

    Raises:
        InputError: it is not.
    """
    script = Path(command[0])
    if not (command[0].startswith("-") or script.is_file() or (workdir / script).is_file()):
        raise InputError(
            f"there is no such script, neither here nor in {workdir.resolve()}", str(script)
        )


def _require_torchrun() -> None:
    """Refuses to rent where workers could not be started.

    Raises:
        InputError: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "local VMs start workers by torchrun, and torch is not installed here: pip install "
            '"srifty[train]", or say --launcher plain; nothing was rented'
        )


def _check_options(
    backend: str, scenario: Path | None, launcher: Launcher, cluster_path: Path | None
) -> None:
    """Refuses what a back end has no use for: it would not be what the user thinks it is."""
    if backend != "local" and scenario is not None:
        raise InputError("only VMs of --backend local can be played", "--scenario")
    if backend != "local" and launcher is not Launcher.TORCHRUN:
        raise InputError("only --backend local has other launchers than torchrun", "--launcher")
    if backend != "ray" and cluster_path is not None:
        raise InputError("only --backend ray has a cluster file", "--cluster-file")


def _no_plan(bench: Workbench, result: PlanResult, *, as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(dump(plan_result_document(result)))
    else:
        show_result(console_for_results(), bench.job, result)
    raise typer.Exit(EXIT_NO_PLAN)


def _at_live_prices(
    planning: Planning, result: PlanResult, prices: Sequence[Price], *, yes: bool
) -> tuple[Planning, PlanResult]:
    """Plans anew where what may be rented costs something else by now.

    Asks before it takes a plan that costs 5 % more than the first one did; `--yes` takes it as long
    as it keeps the budget, which the planner sees to.
    """
    now = at_prices(planning, prices)
    changed = differences(planning.offers, now.offers)
    if not changed or result.plan is None:
        return now, (now.first() if prices else result)
    for line in changed:
        tell(line)
    again = now.first()
    if again.plan is None:
        tell("At today's prices no plan meets the limits.")
        return now, again
    before_usd, now_usd = result.plan.forecast.cost_usd.mean, again.plan.forecast.cost_usd.mean
    if now_usd != before_usd:
        tell(
            f"At today's prices the run is expected to cost {format_usd(now_usd)} in total, not "
            f"{format_usd(before_usd)}."
        )
    if now_usd > before_usd * MOST_RISE and not yes and not ask("Go on"):
        raise typer.Exit(EXIT_NO_PLAN)
    return now, again


def _offer_of(planning: Planning, plan: Plan) -> _Offer:
    limits = planning.job.limits
    lasts_s = _PATIENCE * max(plan.forecast.time_s.p95, limits.deadline_s or 0.0) + _GRACE_S
    usd_per_hour = plan.config.usd_per_hour + planning.job.extra_usd_per_hour
    cap_usd = limits.budget_usd or 0.0
    return _Offer(plan, lasts_s, min(cap_usd, usd_per_hour * lasts_s / 3600))


def _show_request(
    bench: Workbench,
    planning: Planning,
    offer: _Offer,
    run_id: str,
    backend: str,
    launcher: Launcher,
    *,
    as_json: bool,
) -> None:
    """Prints what would be asked for."""
    vms = tuple(
        VmRequest(
            f"vm-{group_number}-{number}",
            Pool.of(group.offer),
            group.offer.instance_type.gpus,
            group.offer.usd_per_hour,
        )
        for group_number, group in enumerate(offer.plan.config.groups, 1)
        for number in range(1, group.count + 1)
    )
    request = LaunchRequest(
        run_id, getpass.getuser(), vms, offer.hard_end_s, settings=bench.file.settings
    )
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock.start()
        made = make_backend(
            backend,
            Path(folder),
            clock,
            scenario_of(None),
            launcher,
            cloud=bench.file.supply.cloud,
        )
        prepared = made.prepare(request)
    document: dict[str, Any] = {
        "plan": plan_document(offer.plan),
        "usd_per_hour": offer.plan.config.usd_per_hour,
        "worst_case_usd_total": offer.worst_usd,
        "request": dict(prepared.document),
    }
    if not as_json:
        _show_offer(planning, offer)
    typer.echo(dump(document if as_json else {"request": document["request"]}))


def _show_offer(planning: Planning, offer: _Offer) -> None:
    forecast = offer.plan.forecast
    hourly = offer.plan.config.usd_per_hour + planning.job.extra_usd_per_hour
    time_s, cost = forecast.time_s, forecast.cost_usd
    tell(
        f"Ends in {format_duration(time_s.mean)} (90 %: {format_duration(time_s.p90)}), for "
        f"{format_usd(cost.mean)} in total (90 %: {format_usd(cost.p90)})."
    )
    tell(
        f"All VMs together cost {format_usd(hourly)} per hour. At worst this run costs "
        f"{format_usd(offer.worst_usd)} in total: then it is stopped."
    )


def _confirm(planning: Planning, offer: _Offer, *, yes: bool) -> None:
    """Shows what will be rented and asks; ends the command where the answer is no."""
    for group in offer.plan.config.groups:
        tell(f"  {describe_group(group)}, {format_usd(group.offer.usd_per_hour)} per hour each")
    _show_offer(planning, offer)
    if not yes and not ask("Rent them"):
        tell("nothing was rented")
        raise typer.Exit(0)


def _absolute(command: list[str]) -> list[str]:
    """Returns the command with its script found from anywhere, where it is a file here."""
    script = Path(command[0])
    return [str(script.resolve()) if script.is_file() else command[0], *command[1:]]
