"""A ledger with a loss in the middle, as its controller would have written it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from srifty.control.bill import PaidPrice
from srifty.control.ledger import Ledger
from srifty.control.records import AskedVm, RunRecord
from srifty.core.events import Progress, VmEvent, VmEventKind
from tests.control.ledger_writer import POOL
from tests.report.pages import spread

DOCUMENT = {
    "iterations": 400,
    "deadline_s": 500.0,
    "cap_usd": 5.0,
    "extra_usd_per_hour": 0.36,
}
FORECAST = {
    "config": "2g3.8xlarge (spot)@32",
    "iteration_s": spread(0.5, 0.05),
    "time_s": spread(260.0, 20.0),
    "cost_usd": spread(0.45, 0.04),
}


@contextmanager
def told_ledger(path: Path, *, began_unix_s: float | None = None) -> Generator[Ledger]:
    """The ledger, open for more to be written."""
    began = time.time() if began_unix_s is None else began_unix_s
    run = RunRecord("toy-1", "me", "local", began, 1.0, DOCUMENT)
    with Ledger.create(path, run) as ledger:
        ledger.note_forecast(FORECAST, 0.0)
        price = PaidPrice(0.0, 3.6, "made up")
        names = ("vm-1", "vm-2")
        ledger.ask([AskedVm(vm, POOL, 2, "aws", "2026-11-30", price) for vm in names], 0.0)
        launched = [VmEvent(60.0, VmEventKind.LAUNCHED, vm, POOL) for vm in names]
        ledger.note_events(0, launched)
        ledger.done(world(ledger, 60.0, 0), 60.0)
        for number in range(1, 11):
            ledger.note_progress(Progress(60.0 + 10.0 * number, 20.0 * number, 0.0, 0.02 * number))
        ledger.note_events(2, [preempted("vm-2", 165.0)])
        ledger.done(world(ledger, 170.0, 180), 170.0)
        for number in range(1, 11):
            point = Progress(170.0 + 10.0 * number, 180.0 + 10.0 * number, 180.0, 0.2)
            ledger.note_progress(point)
        yield ledger


def preempted(vm: str, at_s: float) -> VmEvent:
    return VmEvent(at_s, VmEventKind.PREEMPTED, vm, POOL, detail="taken back")


def world(ledger: Ledger, at_s: float, from_iteration: int) -> int:
    document = {"config_text": "2g3.8xlarge (spot)@32", "from_iteration": from_iteration}
    return ledger.begin("world", document, at_s)
