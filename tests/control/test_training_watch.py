from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from srifty.cloud.backend import VmWorkers, WorkersStatus, World, WorldVm
from srifty.cloud.clock import Clock
from srifty.control.fleet import Fleet, FleetVm, Phase
from srifty.control.run_order import RunRule
from srifty.control.run_state import RunState, Training
from srifty.control.situation import PolicyRule
from srifty.control.training_log import TrainingLog
from srifty.control.training_watch import TrainingWatch
from srifty.core.events import Pool
from tests.builders import make_config
from tests.control.played import PlayedRun
from tests.control.runs import SMALL, job, offer


class Hands:
    """Notes what it is told to do."""

    def __init__(self) -> None:
        self.ended: list[bool] = []

    def say(self, words: str) -> None:
        pass

    def end_training(self, *, saves: bool, again: bool = False) -> None:
        self.ended.append(saves)


class Workers:
    """A back end whose workers do what they are told to have done."""

    def __init__(self) -> None:
        self.codes: dict[str, int | None] = {"a": None, "b": None}

    def workers(self) -> list[VmWorkers]:
        return [
            VmWorkers(vm, 1, WorkersStatus.RUNNING if code is None else WorkersStatus.ENDED, code)
            for vm, code in self.codes.items()
        ]


@pytest.fixture
def watched():
    clock = Clock.start()
    spot = offer(SMALL)
    state = RunState(TrainingLog(clock.at_s))
    state.fleet = Fleet({vm: FleetVm(vm, Pool.of(spot), 1, 0.0, Phase.READY) for vm in ("a", "b")})
    world = World(1, (WorldVm("a", 1), WorldVm("b", 1)), ("train.py",), "32,32")
    state.training = Training(world, make_config((spot, 2, 32)), 0.0, 0)
    hands, workers = Hands(), Workers()
    planning = replace(PlayedRun(Path()).planning, job=job())

    def watch(rule: RunRule) -> TrainingWatch:
        return TrainingWatch(
            state, planning, workers, None, clock, hands, None, policy=PolicyRule(), rule=rule
        )

    return state.training, workers, hands, watch


def test_workers_that_save_are_waited_for(watched):
    training, _, hands, watch = watched
    training.step, training.saves, training.stop_s = 1, True, float("inf")
    watch(RunRule(broken_s=0.0)).look()
    assert hands.ended == []
    training.stop_s = 0.0
    watch(RunRule(save_s=0.0)).look()
    assert hands.ended == [False]


def test_others_are_not_waited_for_long_once_one_is_gone(watched):
    training, workers, hands, watch = watched
    training.step, training.saves, training.stop_s = 1, True, float("inf")
    workers.codes["b"] = -9
    patient, hasty = watch(RunRule(broken_s=1e6)), watch(RunRule(broken_s=-1.0))
    patient.look()
    assert hands.ended == []
    hasty.look()
    assert hands.ended == [False]


def test_one_that_fails_ends_the_world(watched):
    _, workers, hands, watch = watched
    workers.codes["b"] = 1
    watch(RunRule()).look()
    assert hands.ended == [False]


def test_what_never_made_a_step_has_its_own_time(watched):
    training, _, hands, watch = watched
    watch(RunRule(silence_s=0.0)).look()
    assert hands.ended == []
    training.began_at_s = -1.0
    watch(RunRule(start_s=0.0)).look()
    assert hands.ended == [False]
