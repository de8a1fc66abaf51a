"""`srifty measure`: rent a few VMs, measure the model and the network there, and release them."""

from __future__ import annotations

import getpass
import importlib.machinery
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from srifty import __version__
from srifty.cli._json import dump
from srifty.cli._measured import Measured
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
from srifty.cli._runs import (
    RunPlace,
    ask,
    check_backend,
    counted_signals,
    digest_of,
    ended,
    make_backend,
    run_name,
    runs_folder,
    scenario_of,
    tell,
)
from srifty.cli._workbench import catalog_of
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher
from srifty.control.errands import Errand, Measure, errands_of
from srifty.control.ledger import Ledger
from srifty.control.measuring import MeasureOrder, Measuring, launch_request
from srifty.control.records import RunRecord
from srifty.control.run_order import Ending
from srifty.control.summary import summary
from srifty.core.events import Pool
from srifty.core.offers import Offer
from srifty.errors import InputError
from srifty.files.job_file import Rental, read_rental
from srifty.units import format_duration, format_usd

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

_FACTORY = re.compile(r"[\w.]+:[\w.]+")
# Seconds to load libraries and to warm up, beside what a measurement is given.
_START_S = 60.0
# How many times as long as it is given a measurement may take, and the least that is allowed.
_PATIENCE = 3.0
_LEAST_TASK_S = 300.0
_LEAST_BILLED_S = 60.0  # of every VM, by the rules of both clouds
_SUFFIX = {Measure.PROFILE: ".json", Measure.INSIDE: ".csv", Measure.BETWEEN: ".csv"}


@app.command(epilog="Example: srifty measure job.yaml --factory train:make_workload --max-cost 5")
def measure(
    job_path: JobPath,
    factory: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="What srifty profile measures; found from run.workdir. Without it the network "
            "alone is measured.",
        ),
    ] = None,
    changes: Changes = None,
    backend: BackendName = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the exact requests and the cost; rent nothing.")
    ] = False,
    yes: Yes = False,
    max_cost: MaxCost = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=86400.0, help="Time for each profile, roughly.")
    ] = 180.0,
    probe_seconds: Annotated[
        float, typer.Option(min=0.1, max=86400.0, help="Time for each sweep of allreduces.")
    ] = 60.0,
    max_batch: Annotated[
        int | None, typer.Option(min=1, help="Profile no larger batch than this.")
    ] = None,
    name: NewRunName = None,
    scenario: ScenarioPath = None,
    launcher: LauncherName = Launcher.TORCHRUN,
    as_json: AsJson = False,
) -> None:
    """Rent one VM of each GPU model and a pair of each family; profile and probe there.

    All VMs work at the same time and are released as soon as they are done. What was measured is
    written to the run's folder, and samples from real VMs to the store as well; how to plan with it
    is said at the end. On the local back end this machine stands in for the GPUs.

    Exits with 4 where something could not be measured, 5 where the cloud refused, 6 where the
    money was spent.
    """
    if factory is not None and _FACTORY.fullmatch(factory) is None:
        raise InputError(f"must be MODULE:FACTORY, not {factory!r}", "--factory")
    played = scenario_of(None if scenario is None else str(scenario))
    rental = read_rental(job_path, changes or ())
    cap_usd = rental.budget_usd if max_cost is None else max_cost
    if cap_usd is None:
        raise InputError(
            "say what it may cost at most: --max-cost USD, or budget_usd in the job file",
            str(job_path),
        )
    if factory is not None and backend == "local":
        _require_module(factory, Path(rental.settings.workdir))
    errands = errands_of(catalog_of(rental.supply, job_path).offers, profiles=factory is not None)
    if not errands:
        raise InputError(
            "there is nothing to measure: no pair of VMs can be rented, and no --factory names a "
            "model",
            str(job_path),
        )
    given_s = {
        Measure.PROFILE: seconds,
        Measure.INSIDE: probe_seconds,
        Measure.BETWEEN: probe_seconds,
    }
    run_id = name or run_name(f"{rental.name}-measure")
    options = () if max_batch is None else ("--max-batch", str(max_batch))
    command = partial(_command, rental, factory or "", seconds, probe_seconds, options)
    order = _order(run_id, rental, errands, command, given_s, cap_usd)
    document = _costs(order, rental, given_s) | {"run": run_id}
    _require_enough(float(document["expected_usd_total"]), cap_usd)
    place = RunPlace((runs_folder() / run_id).resolve())
    if dry_run:
        _show_requests(order, document, backend, rental.supply.cloud, as_json=as_json)
        return
    check_backend(backend)
    if place.ledger.exists():
        raise InputError(f"there is a run {run_id!r} already; name another", "--name")
    _show_costs(order, document)
    if not yes and not ask("Rent them"):
        tell("nothing was rented")
        return
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
            "iterations": sum(len(each.measures) for each in errands),
            "unit": "measurements",
            "backends": [each.name for each in errands],
            "cap_usd": cap_usd,
            "deadline_s": None,
            "hard_end_s": order.hard_end_s,
            "launcher": launcher.value,
            "scenario": None if scenario is None else str(scenario.resolve()),
            "cloud": rental.supply.cloud,
        },
    )
    clock = Clock(record.began_unix_s, record.clock_factor)
    # What is played here must not be taken for what real VMs do.
    kept = Measured(place.path / "measured", is_played=backend == "local")
    with Ledger.create(place.ledger, record) as ledger, counted_signals() as received:
        tell(f"run {run_id}; see it with: srifty watch {run_id}")
        measuring = Measuring(
            order,
            lambda errand: make_backend(
                backend,
                place.backend / errand,
                clock,
                played,
                launcher,
                cloud=rental.supply.cloud,
            ),
            ledger,
            clock,
            keep=kept.keep,
            tell=tell,
            is_asked_to_stop=lambda: len(received) + place.stop.exists(),
        )
        ending, message = measuring.run()
        spent = summary(ledger, clock.now_s(), is_controlled=False)
    _finish(kept, ending, message, spent, as_json=as_json)
    raise typer.Exit(ended({"ending": ending}))


def _order(
    run_id: str,
    rental: Rental,
    errands: tuple[Errand, ...],
    command: Callable[[Measure, Offer], tuple[str, ...]],
    given_s: Mapping[Measure, float],
    cap_usd: float,
) -> MeasureOrder:
    """Returns what is ordered, with an end that comes whatever happens."""
    longest_s = max(sum(_START_S + given_s[m] for m in each.measures) for each in errands)
    return MeasureOrder(
        run_id,
        getpass.getuser(),
        errands,
        command,
        _SUFFIX,
        rental.settings,
        hard_end_s=rental.launch_s + _PATIENCE * longest_s + 600.0,
        task_s=max(_PATIENCE * max(given_s.values()), _LEAST_TASK_S),
        cap_usd=cap_usd,
    )


def _require_enough(expected_usd: float, cap_usd: float) -> None:
    """Refuses to begin what the money would not let end.

    Raises:
        InputError: it would not.
    """
    if expected_usd > cap_usd:
        raise InputError(
            f"measuring all of it costs about {format_usd(expected_usd)}, more than "
            f"{format_usd(cap_usd)}; nothing was rented. Give it more (--max-cost) or less to do "
            "(--seconds, --probe-seconds, fewer types in the job's quota)"
        )


def _require_module(factory: str, workdir: Path) -> None:
    """Refuses a factory whose module is not there, before anything is paid for.

    Raises:
        InputError: it is not.
    """
    top = factory.partition(":")[0].partition(".")[0]
    places = [str(workdir.resolve()), *sys.path]
    if importlib.machinery.PathFinder.find_spec(top, places) is None:
        raise InputError(
            f"there is no module {top!r}, neither in {workdir.resolve()} nor installed", "--factory"
        )


def _command(
    rental: Rental,
    factory: str,
    seconds: float,
    probe_seconds: float,
    options: Sequence[str],
    measure: Measure,
    offer: Offer,
) -> tuple[str, ...]:
    """Returns the words after `srifty` that measure something on an offer's VMs."""
    if measure is Measure.PROFILE:
        return ("profile", factory, "--seconds", f"{seconds:g}", *options)
    place = offer.location
    words = ["probe", "--seconds", f"{probe_seconds:g}", "--cloud", rental.supply.cloud]
    words += ["--instance-type", offer.instance_type.name, "--region", place.region]
    words += ["--zone", place.zone] if place.zone else []
    return tuple(words)


def _costs(order: MeasureOrder, rental: Rental, given_s: dict[Measure, float]) -> dict[str, Any]:
    """Returns what the errands cost, expected and at worst."""
    usd_per_hour = sum(each.vms * each.offers[0].usd_per_hour for each in order.errands)
    worst_usd = sum(each.usd_per_hour for each in order.errands) * order.hard_end_s / 3600
    lasts_s = {
        each.name: max(sum(_START_S + given_s[m] for m in each.measures), _LEAST_BILLED_S)
        for each in order.errands
    }
    expected_usd = sum(
        each.vms * each.offers[0].usd_per_hour * lasts_s[each.name] / 3600 for each in order.errands
    )
    if order.cap_usd is not None:
        worst_usd = min(worst_usd, order.cap_usd)
    return {
        "usd_per_hour": usd_per_hour,
        "expected_usd_total": expected_usd,
        "worst_case_usd_total": worst_usd,
        "expected_s": rental.launch_s + max(lasts_s.values()),
        "errands": [_errand_document(each) for each in order.errands],
    }


def _errand_document(errand: Errand) -> dict[str, Any]:
    offer = errand.offers[0]
    return {
        "name": errand.name,
        "vms": errand.vms,
        "instance_type": offer.instance_type.name,
        "gpu": offer.instance_type.gpu,
        "market": offer.market.value,
        "location": {"region": offer.location.region, "zone": offer.location.zone},
        "usd_per_hour_each": offer.usd_per_hour,
        "measures": [measure.value for measure in errand.measures],
    }


def _show_requests(
    order: MeasureOrder,
    document: dict[str, Any],
    backend: str,
    cloud: str,
    *,
    as_json: bool,
) -> None:
    """Prints what would be asked for, and run."""
    requests: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        made = make_backend(
            backend,
            Path(folder),
            Clock.start(),
            scenario_of(None),
            Launcher.TORCHRUN,
            cloud=cloud,
        )
        for errand in order.errands:
            offer = errand.offers[0]
            vms = [f"{errand.name}-{number}" for number in range(1, errand.vms + 1)]
            prepared = made.prepare(launch_request(order, offer, vms))
            commands = [" ".join(("srifty", *order.command(m, offer))) for m in errand.measures]
            requests.append({"request": dict(prepared.document), "commands": commands})
    if not as_json:
        _show_costs(order, document)
    whole = document | {"requests": requests}
    typer.echo(dump(whole if as_json else {"requests": requests}))


def _show_costs(order: MeasureOrder, document: dict[str, Any]) -> None:
    for errand in order.errands:
        offer = errand.offers[0]
        tell(
            f"  {errand.vms} x {Pool.of(offer)}, {format_usd(offer.usd_per_hour)} per hour each: "
            f"{', '.join(errand.measures)}"
        )
    tell(
        f"Ends in about {format_duration(document['expected_s'])}, for about "
        f"{format_usd(document['expected_usd_total'])} in total. All VMs together cost "
        f"{format_usd(document['usd_per_hour'])} per hour; at worst this costs "
        f"{format_usd(document['worst_case_usd_total'])} in total: then it is stopped."
    )


def _finish(
    kept: Measured, ending: Ending, message: str, spent: dict[str, Any], *, as_json: bool
) -> None:
    """Prints what was measured, what it cost, and how to plan with it."""
    if as_json:
        document = {
            "run": spent["run"],
            "state": ending.value,
            "message": message,
            "spent_usd_total": spent["spent_usd_total"],
            "bill": spent["bill"],
            **kept.document(),
        }
        typer.echo(dump(document))
        return
    typer.echo(f"{spent['run']}: {ending.value}. {message}")
    for line in spent["bill"]:
        typer.echo(
            f"  {line['name']}: {format_duration(line['billed_s'])}, "
            f"{format_usd(line['usd_total'])} in total"
        )
    typer.echo(f"  {format_usd(spent['spent_usd_total'])} in total for this run")
    for line in kept.lines():
        typer.echo(line)
