from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import random
import time
from pathlib import Path

import pytest

from srifty.catalog.billing import DiskUsage
from srifty.cloud.backend import VmState, VmStatus
from srifty.control.bill import PaidPrice
from srifty.control.ledger import Ledger
from srifty.control.records import AskedVm, StepRecord
from srifty.core import Market
from srifty.core.events import (
    Cause,
    Decision,
    DecisionKind,
    LaunchFailure,
    Pool,
    Progress,
    VmEvent,
    VmEventKind,
)
from srifty.errors import InputError
from tests.builders import make_config, make_offer
from tests.control.ledger_writer import POOL, RUN, control


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run-1" / "ledger.db"


@pytest.fixture
def ledger(path):
    with Ledger.create(path, RUN) as made:
        yield made


def asked(vm: str, usd_per_hour: float = 3.6, at_s: float = 0.0, provider: str = "aws") -> AskedVm:
    return AskedVm(vm, POOL, 2, provider, "2026-11-30", PaidPrice(at_s, usd_per_hour, "made up"))


def happened(kind: VmEventKind, vm: str, at_s: float, **more) -> VmEvent:
    return VmEvent(at_s, kind, vm, POOL, **more)


def test_the_bill_of_a_partial_launch(ledger):
    """Eight asked for, five run after 150 s and train 20 min, stopped for 10 h, then deleted."""
    names = [f"vm-{number}" for number in range(1, 9)]
    offer = make_offer(usd_per_hour=7.824)
    ledger.ask([AskedVm.of(name, offer, at_s=0.0, rented_on="2026-11-30") for name in names], 0.0)
    disk = DiskUsage("disk", 100.0, created_s=0.0)
    ledger.add_disk(disk, provider="aws", made_on="2026-11-30")
    run, failed = names[:5], names[5:]
    events = [happened(VmEventKind.LAUNCHED, name, 150.0) for name in run]
    events += [
        happened(VmEventKind.FAILED, name, 10.0, failure=LaunchFailure.CAPACITY) for name in failed
    ]
    ledger.note_events(0, events)
    assert ledger.bill(150.0 + 600).usd_per_hour == pytest.approx(5 * 7.824)

    stopped_s = 150.0 + 1200
    ledger.note_events(8, [happened(VmEventKind.TERMINATED, name, stopped_s) for name in run])
    deleted_s = stopped_s + 36_000
    ledger.delete_disk("disk", deleted_s)
    bill = ledger.bill(deleted_s + 1e6)
    assert bill.usd_per_hour == 0
    assert [line.billed_s for line in bill.vms] == [1200.0] * 5 + [0.0] * 3
    assert [line.usd for line in bill.vms] == [pytest.approx(7.824 / 3)] * 5 + [0.0] * 3
    (line,) = bill.disks
    assert line.usd == pytest.approx(100 * 0.08 * deleted_s / 3600 / 730)
    assert bill.usd == pytest.approx(5 * 7.824 / 3 + line.usd)


def test_a_bill_at_prices_that_change(ledger):
    ledger.ask([asked("vm-1", 3.6)], 0.0)
    ledger.note_price("vm-1", PaidPrice(50.0, 7.2))  # before it runs
    ledger.note_price("vm-1", PaidPrice(1000.0, 36.0))
    ledger.note_price("vm-1", PaidPrice(9999.0, 360.0))  # after it has ended
    ledger.note_events(0, [happened(VmEventKind.LAUNCHED, "vm-1", 100.0)])
    assert ledger.bill(500.0).usd == pytest.approx(400 * 0.002)
    assert ledger.bill(500.0).usd_per_hour == 7.2
    assert ledger.bill(1100.0).usd == pytest.approx(900 * 0.002 + 100 * 0.01)
    assert ledger.bill(1100.0).usd_per_hour == 36.0
    ledger.note_events(1, [happened(VmEventKind.TERMINATED, "vm-1", 2000.0)])
    assert ledger.bill(99999.0).usd == pytest.approx(900 * 0.002 + 1000 * 0.01)


def test_the_rule_of_the_provider_counts(ledger):
    """AWS gives the first hour of spot back that it interrupts; others bill a minute at least."""
    ledger.ask([asked("vm-1"), asked("vm-2"), asked("vm-3", provider="gcp")], 0.0)
    ledger.note_events(
        0,
        [
            *(happened(VmEventKind.LAUNCHED, f"vm-{number}", 100.0) for number in (1, 2, 3)),
            happened(VmEventKind.PREEMPTED, "vm-1", 130.0),
            happened(VmEventKind.TERMINATED, "vm-2", 130.0),
            happened(VmEventKind.PREEMPTED, "vm-3", 130.0),
        ],
    )
    assert [line.billed_s for line in ledger.bill(1e6).vms] == [0.0, 60.0, 60.0]


def test_what_vms_really_did_counts_more_than_what_was_heard(ledger):
    """A VM that died unheard of is billed until it died; one that is silent is billed on."""
    ledger.ask([asked("vm-1"), asked("vm-2")], 0.0)
    lost = [happened(VmEventKind.LOST, name, 200.0) for name in ("vm-1", "vm-2")]
    launched = [happened(VmEventKind.LAUNCHED, name, 100.0) for name in ("vm-1", "vm-2")]
    ledger.note_events(0, launched + lost)
    assert [line.billed_s for line in ledger.bill(300.0).vms] == [200.0, 200.0]
    ledger.note_states(
        [
            VmState("vm-1", POOL, VmStatus.GONE, 100.0, 190.0),
            VmState("vm-2", POOL, VmStatus.LOST, 100.0, None),
        ]
    )
    assert [line.billed_s for line in ledger.bill(300.0).vms] == [90.0, 200.0]


def test_own_machines_cost_what_they_are_said_to():
    offer = make_offer(usd_per_hour=0.0, market=Market.OWNED)
    vm = AskedVm.of("lab", offer, at_s=5.0, rented_on="2026-11-30")
    assert (vm.pool, vm.gpus) == (Pool.of(offer), 1)
    assert vm.price == PaidPrice(5.0, 0.0, "made up")


def test_everything_is_there_when_it_is_opened_again(path):
    config = make_config((make_offer(), 2, 8))
    decision = Decision(
        9.0, DecisionKind.MOVE, Cause.LOST, config, 60.0, numbers=(("left_s", 100.0),)
    )
    with Ledger.create(path, RUN) as ledger:
        ledger.ask([asked("vm-1")], 0.0)
        events = [
            happened(VmEventKind.LAUNCHED, "vm-1", 1.0),
            happened(VmEventKind.NOTICE, "vm-1", 2.0, detail="in two minutes"),
        ]
        ledger.note_events(0, events)
        ledger.note_progress(Progress(3.0, 10.0, 5.0, 0.1, 0.5))
        ledger.note_decision(decision)
        number = ledger.note_forecast({"time_s": 10.0}, 4.0)
        ledger.close_forecast(number, {"time_s": 11.0}, 5.0)
        first = ledger.begin("launch", {"vms": ["vm-1"]}, 6.0)
        ledger.done(first, 7.0, {"vms": 1})
        second = ledger.begin("save", {}, 8.0)
    with Ledger.open(path) as ledger:
        assert ledger.run() == RUN
        assert ledger.events() == events
        assert ledger.progress() == [Progress(3.0, 10.0, 5.0, 0.1, 0.5)]
        (document,) = ledger.decisions()
        assert document["config"] == "2a1.small@8"
        assert document["numbers"] == {"left_s": 100.0}
        (forecast,) = ledger.forecasts()
        assert (forecast.document, forecast.outcome) == ({"time_s": 10.0}, {"time_s": 11.0})
        assert ledger.steps()[0] == StepRecord(
            first, "launch", {"vms": ["vm-1"]}, 6.0, 7.0, {"vms": 1}
        )
        assert [step.number for step in ledger.unfinished()] == [second]
        ledger.end({"code": 0}, 10.0)
        assert ledger.run().outcome == {"code": 0}


def test_events_are_noted_once(ledger):
    ledger.ask([asked("vm-1")], 0.0)
    ledger.ask([asked("vm-1", 99.0)], 5.0)
    events = [
        happened(VmEventKind.LAUNCHED, "vm-1", 1.0),
        happened(VmEventKind.LOST, "vm-1", 2.0),
        happened(VmEventKind.RECOVERED, "vm-1", 3.0),
    ]
    ledger.note_events(0, events[:2])
    ledger.note_events(1, events[1:])
    assert ledger.events() == events
    with pytest.raises(InputError, match="event 5 cannot be noted after 3"):
        ledger.note_events(5, events)
    assert [vm.usage.usd_per_hour for vm in ledger.vms()] == [3.6]


def test_one_controller_writes_and_all_may_read(ledger, path):
    with pytest.raises(InputError, match="has a controller, process"):
        Ledger.open(path)
    with Ledger.read(path) as reader:
        assert reader.run() == RUN
        ledger.note_progress(Progress(1.0, 1.0))
        assert len(reader.progress()) == 1
        with pytest.raises(InputError, match="read-only"):
            reader.note_progress(Progress(2.0, 2.0))
    ledger.close()
    Ledger.open(path).close()


def test_a_second_run_in_one_file_is_refused(path):
    Ledger.create(path, RUN).close()
    with pytest.raises(InputError, match="holds a run already"):
        Ledger.create(path, RUN)
    with pytest.raises(InputError, match="there is no such file"):
        Ledger.open(path.with_name("other.db"))


def rounds_until_killed(path: Path, rounds: int, then_s: float) -> list[int]:
    """Has a controller write, and kills it a little after so many rounds; returns what it said."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.control.ledger_writer"])
    heard, say = context.Pipe(duplex=False)
    controller = context.Process(target=control, args=(path, say))
    controller.start()
    say.close()
    said = [heard.recv() for _ in range(1 + rounds)]
    time.sleep(then_s)
    controller.kill()
    controller.join()
    with contextlib.suppress(EOFError), heard:
        while True:
            said.append(heard.recv())
    return said[1:]


def test_controllers_that_are_killed_lose_and_double_nothing(path):
    """Twenty of them, each of which goes on where the one before it was killed."""
    rng = random.Random(0)
    said: list[int] = []
    torn = 0
    for _ in range(20):
        said += rounds_until_killed(path, rng.randrange(3), rng.uniform(0.0, 0.05))
        with Ledger.read(path) as ledger:
            steps, vms, events = ledger.steps(), ledger.vms(), ledger.events()
            bill = ledger.bill(0.0)
        done = [step for step in steps if step.done_s is not None]
        torn += len(steps) - len(done)
        assert [step.document["round"] for step in steps] == list(range(len(steps)))
        assert len(steps) - len(done) <= 1
        names = [vm.usage.name for vm in vms]
        assert names == [f"vm-{number}" for number in range(len(names))]
        assert len(done) <= len(names) <= len(steps)
        kinds = itertools.cycle((VmEventKind.LAUNCHED, VmEventKind.TERMINATED))
        assert [(event.vm, event.kind) for event in events] == [
            (f"vm-{number // 2}", next(kinds)) for number in range(len(events))
        ]
        assert 2 * len(done) <= len(events) <= 2 * len(names)
        lines = bill.vms[: len(done)]
        assert [line.billed_s for line in lines] == [90.0] * len(done)
        assert sum(line.usd for line in lines) == pytest.approx(0.09 * len(done))
        assert set(said) <= {step.document["round"] for step in done}
    assert len(said) == len(set(said))
    assert torn > 0  # some were killed in the middle of a round


def test_a_ledger_that_cannot_be_begun_leaves_its_name_free(tmp_path, monkeypatch):
    path = tmp_path / "run" / "ledger.db"

    def full(_: object) -> str:
        raise InputError("the disk is full")

    monkeypatch.setattr("srifty.control.ledger.json.dumps", full)
    with pytest.raises(InputError, match="full"):
        Ledger.create(path, RUN)
    assert not path.exists()
    monkeypatch.undo()
    Ledger.create(path, RUN).close()
