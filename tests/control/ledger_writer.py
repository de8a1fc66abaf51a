"""A controller that does nothing but write its ledger, to be killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

from srifty.control.bill import PaidPrice
from srifty.control.ledger import Ledger
from srifty.control.records import AskedVm, RunRecord
from srifty.core.events import Pool, Progress, VmEvent, VmEventKind
from srifty.core.offers import Location, Market
from srifty.errors import InputError

POOL = Pool("g3.8xlarge", Location("us-east-1", "us-east-1a"), Market.SPOT)
RUN = RunRecord("run-1", "me", "local", 1.7e9, 1.0, {"job": "toy"})


# A round: begins a step, asks for a VM, notes its events, progress, a forecast; ends the step.
def write_round(ledger: Ledger, number: int, step: int | None = None) -> None:
    """Everything that a controller writes, once; `step` where the round was begun before."""
    at_s = 100.0 * number
    vm = f"vm-{number}"
    if step is None:
        step = ledger.begin("launch", {"round": number}, at_s)
    price = PaidPrice(at_s, 3.6, "made up")
    ledger.ask([AskedVm(vm, POOL, 2, "aws", "2026-11-30", price)], at_s)
    events = [
        VmEvent(at_s, VmEventKind.LAUNCHED, vm, POOL),
        VmEvent(at_s + 90, VmEventKind.TERMINATED, vm, POOL, detail="as the run asked"),
    ]
    ledger.note_events(2 * number, events[:1])
    ledger.note_events(2 * number, events)
    ledger.note_progress(Progress(at_s, number))
    forecast = ledger.note_forecast({"time_s": 1.0}, at_s)
    ledger.close_forecast(forecast, {"time_s": 2.0}, at_s)
    ledger.done(step, at_s, {"vm": vm})


def begin(path: Path) -> Ledger:
    """The ledger, made or resumed, however far its last controller came."""
    try:
        ledger = Ledger.open(path)
        ledger.run()
    except InputError:
        return Ledger.create(path, RUN)
    return ledger


def control(path: Path, say: Connection) -> None:
    """Writes on and on; says -1 once it controls the run, and every round once it is written."""
    with begin(path) as ledger:
        say.send(-1)
        for step in ledger.unfinished():
            write_round(ledger, step.document["round"], step.number)
        for number in range(len(ledger.steps()), 100_000):
            write_round(ledger, number)
            say.send(number)
