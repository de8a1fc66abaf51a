"""What is tried on real VMs before they train together."""

from dataclasses import replace
from pathlib import Path

import pytest

from srifty.control.ledger import Ledger
from srifty.control.run_order import Ending
from srifty.core import Objective
from tests.control.played import RULE, PlayedRun, job, offers

SWEEP = str(Path(__file__).with_name("played_sweep.py"))
NOBODY = "-1"


@pytest.fixture
def run(tmp_path):
    """A run whose best plan has four VMs of one type."""
    made = PlayedRun(tmp_path, offers=offers(small=4, large=0, on_demand=0), per_sample_s=0.001)
    made.job = replace(job(20), objective=Objective.TIME)
    yield made
    made.close()


def read(run: PlayedRun):
    with Ledger.read(run.folder / "ledger.db") as ledger:
        return ledger.steps()


def said(run: PlayedRun, words: str) -> list[str]:
    return [line for line in run.told if words in line]


def test_all_vms_exchange_before_they_train(run):
    run.preflight = (SWEEP, NOBODY, "0.00001")
    assert run.run().ending is Ending.FINISHED
    steps = read(run)
    kinds = [step.kind for step in steps]
    assert kinds.index("preflight") < kinds.index("world")
    assert kinds.count("preflight") == 1
    assert steps[kinds.index("preflight")].outcome["has_passed"]
    assert said(run, "exchange as they should")


def test_a_vm_that_hangs_is_named_and_replaced_before_training(run):
    run.preflight = (SWEEP, "1", "0.00001")
    run.rule = replace(RULE, preflight_s=60.0)
    assert run.run().ending is Ending.FINISHED
    (line,) = said(run, "exchanges hang between")
    assert "vm-1 and vm-2; vm-2 and vm-3; vm-2 and vm-4" in line
    assert said(run, "vm-2 answered nobody: to be replaced")
    steps = read(run)
    # So short a job goes on with the others alone; none trains with the one that hangs.
    worlds = [step.document["vms"] for step in steps if step.kind == "world"]
    assert "vm-2" not in [vm for world in worlds for vm, *_ in world]
    assert ["vm-2"] in [step.document["vms"] for step in steps if step.kind == "release"]
    # It was stopped once the others had said so, not after the whole minute.
    sweeps = [step for step in steps if step.kind == "preflight"]
    assert sweeps[0].done_s - sweeps[0].begun_s < 60.0
    assert [sweep.outcome["has_passed"] for sweep in sweeps] == [None, True]


def test_exchanges_far_slower_than_forecast_are_planned_with(run):
    run.preflight = (SWEEP, NOBODY, "30.0")
    assert run.run().ending is Ending.FINISHED
    assert said(run, "times as long as was forecast: plans anew")
    steps = read(run)
    (learned,) = [step.document["network"] for step in steps if step.kind == "learn"]
    assert learned > 1000
    worlds = [step.document["config_text"] for step in steps if step.kind == "world"]
    assert worlds == ["1a1.small (spot)@64"]


def test_a_sweep_that_cannot_be_made_holds_nothing_up(run):
    run.preflight = ("-c", "raise SystemExit('no torch here')")
    assert run.run().ending is Ending.FINISHED
    assert said(run, "the exchange could not be tried (see")
