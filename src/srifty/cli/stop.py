"""`srifty stop`: have a run save, and release everything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._runs import RunPlace, find_run, make_backend, scenario_of, tell
from srifty.cli.main import EXIT_CLOUD_REFUSED
from srifty.cli.status import RunName, summary_of
from srifty.cloud.backend import Backend, VmStatus, WorkersStatus
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher
from srifty.control.ledger import Ledger
from srifty.control.training_log import newest_checkpoint
from srifty.core.events import Progress

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)

_SAVE_S = 60.0
_RELEASE_S = 30.0


@app.command(epilog="Example: srifty stop resnet50-20261130-101500")
def stop(
    run: RunName,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the controller to have ended.")
    ] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Have a run save, and release everything, whether or not a controller is at work.

    Exits with 5 where VMs are still there afterwards.
    """
    place = find_run(run)
    place.stop.touch()
    if _is_controlled(place):
        tell("asked the controller to save and to release everything")
        until_s = time.monotonic() + wait
        while _is_controlled(place) and time.monotonic() < until_s:
            time.sleep(0.2)
    left: list[str] = []
    if not _is_controlled(place):
        left = _release(place)
    document = summary_of(place) | {"still_there": left}
    if as_json:
        typer.echo(dump(document))
    else:
        typer.echo(f"{document['run']}: {document['state']}")
    if left or _is_controlled(place):
        tell(f"still there: {', '.join(left) or 'the controller'}; run this again")
        raise typer.Exit(EXIT_CLOUD_REFUSED)


def _is_controlled(place: RunPlace) -> bool:
    return place.controller is not None


def _release(place: RunPlace) -> list[str]:
    """Saves and releases in the controller's stead; returns the VMs that would not end."""
    with Ledger.open(place.ledger) as ledger:
        record = ledger.run()
        clock = Clock(record.began_unix_s, record.clock_factor)
        document = record.document
        parts: list[str] = document.get("backends", [])
        there: list[str] = []
        for folder in [place.backend / part for part in parts] or [place.backend]:
            backend = make_backend(
                record.backend,
                folder,
                clock,
                scenario_of(document["scenario"]),
                Launcher(document["launcher"]),
                cloud=document["cloud"],
            )
            there += _release_all(backend, saves=record.outcome is None and not parts)
            if not parts:  # of several back ends, each counts its own events
                known = ledger.event_count()
                ledger.note_events(known, backend.events(known))
            ledger.note_states(backend.reconcile())
        if record.outcome is None:
            now_s = clock.now_s()
            usd = ledger.bill(now_s).usd
            iteration = _note_saved(ledger, document.get("checkpoints"), now_s, usd)
            ledger.end(
                {
                    "ending": "stopped",
                    "message": "Stopped as asked, without a controller.",
                    "usd": usd,
                    "iteration": iteration,
                    "still_billed": there,
                },
                now_s,
            )
        return there


def _note_saved(ledger: Ledger, folder: str | None, now_s: float, usd: float) -> float:
    """Notes the newest checkpoint, which no controller was there to see; returns its iteration.

    Args:
        ledger: of the run.
        folder: of its checkpoints; None: they cannot be seen from here.
        now_s: seconds since the command.
        usd: spent so far.
    """
    noted = ledger.progress()
    newest = newest_checkpoint(None if folder is None else Path(folder))
    durable = max([float(newest), *(each.durable_iteration for each in noted)])
    iteration = max([durable, *(each.iteration for each in noted[-1:])])
    ledger.note_progress(Progress(now_s, iteration, durable, usd))
    return iteration


def _release_all(backend: Backend, *, saves: bool) -> list[str]:
    """Has workers save, and VMs end; returns those that would not."""
    if saves and any(w.status is not WorkersStatus.ENDED for w in backend.workers()):
        backend.stop_workers(save=True)
        until_s = time.monotonic() + _SAVE_S
        while time.monotonic() < until_s and any(
            w.status is not WorkersStatus.ENDED for w in backend.workers()
        ):
            backend.events(0)
            time.sleep(0.2)
    there = _there(backend)
    backend.terminate(there)
    until_s = time.monotonic() + _RELEASE_S
    while there and time.monotonic() < until_s:
        time.sleep(0.2)
        backend.events(0)
        there = _there(backend)
    return there


def _there(backend: Backend) -> list[str]:
    return [
        state.vm
        for state in backend.reconcile()
        if state.status not in (VmStatus.GONE, VmStatus.FAILED)
    ]
