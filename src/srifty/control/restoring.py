"""What an earlier controller knew, put together from the ledger; what it left half done, done.

Steps of the ledger are idempotent: what was begun and may or may not have been done is done again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from srifty.cloud.backend import Backend, Prepared, World
from srifty.cloud.clock import Clock
from srifty.control.crew import read_config, read_pool, read_world
from srifty.control.fleet import FleetVm
from srifty.control.learned import Learned
from srifty.control.ledger import Ledger
from srifty.control.records import StepRecord
from srifty.control.run_order import Ending
from srifty.control.run_state import RunState, Training
from srifty.control.situation import PolicyRule
from srifty.control.training_log import TrainingLog
from srifty.core.offers import Offer

FINISHED = (Ending.FINISHED, "All iterations were made.")


def restored(
    ledger: Ledger, backend: Backend, clock: Clock, offers: Sequence[Offer], policy: PolicyRule
) -> RunState:
    """Returns where a run stands as its ledger tells; a new run's state where that is empty.

    Args:
        ledger: of the run, open for writing.
        backend: where VMs come from; the last steps are done there once more if need be.
        clock: of the run.
        offers: where VMs come from, with their prices now.
        policy: how pools are judged.

    Raises:
        InputError: what the run rents is not on offer any more.
    """
    state = RunState(TrainingLog(clock.at_s))
    released: list[str] = []
    replaced: list[str] = []
    for step in ledger.steps():
        match step.kind:
            case "order":
                record = step.document["config"]
                state.target = None if record is None else read_config(record, offers)
                state.has_begun = True
            case "launch":
                state.fleet = state.fleet.asking(asked_in(step))
            case "world":
                state.training = _training_of(step, offers)
                state.generation = state.training.world.generation
            case "end-world":
                _end(state, step)
            case "release":
                released += step.document["vms"]
            case "replace":
                replaced += step.document["vms"]
            case "learn":
                state.learned = Learned(step.document["network"], step.document["compute"])
            case "preflight":
                _learn(state, step)
            case "close":
                state.outcome = (Ending(step.document["ending"]), step.document["message"])
                state.closing = step.number
            case _:
                pass
        _redo(step, ledger, backend, clock)
    for event in ledger.events():
        state.fleet = state.fleet.after(event)
        state.pools = state.pools.after(event, policy.pools)
    state.events = ledger.event_count()
    state.fleet = state.fleet.releasing(released).replacing(replaced)
    return state


def asked_in(step: StepRecord) -> list[FleetVm]:
    """Returns the VMs that a step asked for."""
    return [
        FleetVm(vm["vm"], read_pool(vm), vm["gpus"], vm["asked_s"]) for vm in step.document["vms"]
    ]


def _training_of(step: StepRecord, offers: Sequence[Offer]) -> Training:
    document = step.document
    config = read_config(document["config"], offers)
    return Training(read_world(document), config, step.begun_s, document["from_iteration"])


def _end(state: RunState, step: StepRecord) -> None:
    """Has the state follow a step that ended a world, or was about to."""
    if step.done_s is not None:
        state.training = None
        if step.outcome is not None and step.outcome["is_finished"]:
            state.outcome = FINISHED
    elif state.training is not None:
        state.training.step = step.number
        state.training.saves = step.document.get("saves", False)
        state.training.stop_s = time.monotonic()


def _learn(state: RunState, step: StepRecord) -> None:
    """Has the state follow a sweep; one that was cut off is made again."""
    state.generation = step.document["generation"]
    if step.outcome is None:
        return
    has_passed, pair = step.outcome["has_passed"], step.outcome["pair"]
    if has_passed and step.document["pair"] is None:
        state.swept |= set(step.document["vms"])
    elif has_passed is not None and pair is not None:
        (state.passed if has_passed else state.apart).add(frozenset(pair))


def _redo(step: StepRecord, ledger: Ledger, backend: Backend, clock: Clock) -> None:
    """Does a step again that may not have been done."""
    if step.done_s is not None:
        return
    match step.kind:
        case "launch":
            backend.launch(Prepared(backend.name, step.document["document"]))
        case "world":
            _start(read_world(step.document), backend)
        case "release":
            backend.terminate(step.document["vms"])
        case "end-world":
            backend.stop_workers(save=step.document.get("saves", False))
            return  # done once the workers have ended
        case _:
            return
    ledger.done(step.number, clock.now_s())


def _start(world: World, backend: Backend) -> None:
    there = {w.vm for w in backend.workers() if w.generation == world.generation}
    if there != {vm.vm for vm in world.vms}:
        backend.start_workers(world)
