from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from srifty.cloud.backend import VmStatus, WorkersStatus, World, WorldVm
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher, LocalBackend
from srifty.cloud.local import backend as local_backend
from srifty.cloud.local.processes import kill_all, tagged
from srifty.cloud.local.run_folder import RunFolder
from srifty.cloud.locks import holder
from srifty.core.events import LaunchFailure, VmEventKind
from srifty.core.scenario import Act, Happening, PoolScript, Scenario, Supply
from srifty.core.settings import RunSettings
from srifty.errors import InputError
from tests.cloud.contract import (
    WORKER,
    BackendContract,
    has,
    request,
    statuses,
    until,
    world,
)


class Cloud:
    """Makes back ends in one folder, and leaves nothing of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"

    def backend(
        self, *scripts: PoolScript, factor: float = 1.0, clock=None, launcher=Launcher.PLAIN
    ) -> LocalBackend:
        clock = clock or Clock.start(factor)
        return LocalBackend(self.folder, clock, Scenario(scripts), launcher=launcher)

    def agent(self, vm: str) -> int | None:
        return holder(RunFolder(self.folder).vm(vm).lock)

    def processes(self, vm: str) -> list[int]:
        return tagged(RunFolder(self.folder.resolve()).vm(vm).tag)

    def close(self) -> None:
        for files in RunFolder(self.folder.resolve()).all_vms():
            kill_all(self.processes(files.path.name))


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


def state_of(pid: int) -> str:
    """The letter by which the kernel tells what a process does; T: it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def launch(backend: LocalBackend, *names: str, **changes) -> None:
    backend.launch(backend.prepare(request(*names, **changes)))


class TestContract(BackendContract):
    @pytest.fixture
    def backend(self, cloud):
        return cloud.backend()


class TestTorchrun:
    def test_workers_are_started_by_torchrun_with_unequal_vms(self, cloud):
        pytest.importorskip("torch")
        backend = cloud.backend(launcher=Launcher.TORCHRUN)
        launch(backend, "vm-1", "vm-2")
        until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
        backend.start_workers(world(1, ("vm-1", 2), ("vm-2", 1), steps=3))
        until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.ENDED})
        assert [each.exit_code for each in backend.workers()] == [0, 0]
        assert sorted(lines.rank for lines in backend.progress({})) == [0, 1, 2]


def test_a_partial_launch_tells_which_vms_there_are(cloud):
    backend = cloud.backend(PoolScript(supply=(Supply(0.0, 6),)))
    names = [f"vm-{number}" for number in range(1, 9)]
    launch(backend, *names)
    until(has(backend, VmEventKind.LAUNCHED, *names[:6]))
    failed = [event for event in backend.events(0) if event.kind is VmEventKind.FAILED]
    assert [event.vm for event in failed] == names[6:]
    assert {event.failure for event in failed} == {LaunchFailure.CAPACITY}
    billed = [state.vm for state in backend.reconcile() if state.is_billed]
    assert billed == names[:6]
    # What is given back can be had again.
    backend.terminate(names[:1])
    until(has(backend, VmEventKind.TERMINATED, "vm-1"))
    launch(backend, "vm-9")
    until(has(backend, VmEventKind.LAUNCHED, "vm-9"))


def test_the_cloud_answers_as_the_script_says(cloud):
    answers = (
        'code=VcpuLimitExceeded note="limit 32 vCPU"',
        None,
        "code=NeverHeardOf op=RunInstances",
    )
    backend = cloud.backend(PoolScript(answers=answers))
    launch(backend, "vm-1", "vm-2", "vm-3", "vm-4")
    until(has(backend, VmEventKind.LAUNCHED, "vm-2", "vm-4"))
    failed = {event.vm: event for event in backend.events(0) if event.failure is not None}
    assert {vm: event.failure for vm, event in failed.items()} == {
        "vm-1": LaunchFailure.QUOTA,
        "vm-3": LaunchFailure.UNKNOWN,
    }
    assert failed["vm-3"].detail == "code=NeverHeardOf op=RunInstances"


def test_vms_boot_for_as_long_as_the_script_says(cloud):
    backend = cloud.backend(PoolScript(boot_s=300.0), factor=300.0)
    launch(backend, "vm-1")
    assert statuses(backend) == {"vm-1": VmStatus.BOOTING}
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    (state,) = backend.reconcile()
    assert state.running_s >= 300.0


def test_a_preemption_with_notice(cloud):
    """Workers hear of it as they would on EC2; the VM is gone when it said it would be."""
    preempt = Happening(Act.PREEMPT, at_iteration=3, notice_s=120.0)
    backend = cloud.backend(PoolScript(happenings=((2, preempt),)), factor=60.0)
    launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    until(has(backend, VmEventKind.PREEMPTED, "vm-2"))
    kinds = [event.kind for event in backend.events(0) if event.vm == "vm-2"]
    assert kinds == [VmEventKind.LAUNCHED, VmEventKind.NOTICE, VmEventKind.PREEMPTED]
    notice, taken = [event.at_s for event in backend.events(0) if event.vm == "vm-2"][1:]
    assert taken - notice >= 120.0
    until(lambda: not cloud.processes("vm-2"))
    states = {state.vm: state for state in backend.reconcile()}
    assert (states["vm-2"].taken_back, states["vm-2"].stopped_s) == (True, taken)
    assert states["vm-1"].is_billed


def test_a_supply_that_falls_takes_back_what_was_granted_last(cloud):
    supply = (Supply(0.0, 2), Supply(400.0, 1), Supply(1e6, 2))
    backend = cloud.backend(PoolScript(supply=supply), factor=200.0)
    launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.PREEMPTED, "vm-2"))
    launch(backend, "vm-3")
    until(has(backend, VmEventKind.FAILED, "vm-3"))
    assert statuses(backend) == {
        "vm-1": VmStatus.RUNNING,
        "vm-2": VmStatus.GONE,
        "vm-3": VmStatus.FAILED,
    }


def test_vms_vanish_by_themselves_after_a_controller_that_never_comes_back(cloud):
    """After fifteen minutes, sped up; with their workers, and whoever was its parent."""
    clock = Clock.start(300.0)
    backend = cloud.backend(clock=clock)
    launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    until(lambda: len(backend.progress({})) == 2)
    backend.events(0)
    heard_s = clock.now_s()
    # No call to the back end from here on.
    until(lambda: not cloud.processes("vm-1") and not cloud.processes("vm-2"))
    states = cloud.backend(clock=clock).reconcile()
    assert [state.status for state in states] == [VmStatus.GONE, VmStatus.GONE]
    assert all(state.stopped_s >= heard_s + 900.0 for state in states)
    (detail,) = {
        event.detail.split(":")[0]
        for event in backend.events(0)
        if event.kind is VmEventKind.TERMINATED
    }
    assert detail == "by itself"


def test_a_worker_that_is_killed_is_noticed(cloud):
    """Within 15 s; the workers of its VM end with it, those of others go on."""
    kill = Happening(Act.KILL_WORKER, at_iteration=3)
    backend = cloud.backend(PoolScript(happenings=((1, kill),)))
    launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    backend.start_workers(world(1, ("vm-1", 2), ("vm-2", 1)))
    until(lambda: [each for each in backend.workers() if each.status is WorkersStatus.ENDED])
    first, second = backend.workers()
    assert (first.exit_code, second.status) == (-signal.SIGKILL, WorkersStatus.RUNNING)
    steps = [line for lines in backend.progress({}) if lines.rank == 0 for line in lines.lines]
    # A step takes 0.02 s or a little more: it was killed, and said to be, long before 15 s.
    assert len(steps) < 15 / 0.02
    assert statuses(backend)["vm-1"] is VmStatus.RUNNING


def test_an_agent_that_dies_without_a_word_is_lost(cloud):
    backend = cloud.backend(PoolScript(happenings=((1, Happening(Act.DIE, at_iteration=2)),)))
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    backend.start_workers(world(1, ("vm-1", 2)))
    until(lambda: not cloud.processes("vm-1"))  # its workers die with it, whoever looks or not
    until(has(backend, VmEventKind.LOST, "vm-1"))
    assert backend.workers() == []
    (state,) = backend.reconcile()
    assert state.status is VmStatus.GONE
    assert state.stopped_s >= state.running_s


def test_an_agent_that_hangs_before_its_first_sign_of_life_is_lost(cloud, monkeypatch, tmp_path):
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(local_backend.sys, "executable", str(hangs))
    monkeypatch.setattr(local_backend, "_START_PATIENCE_S", 0.5)
    backend = cloud.backend()
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LOST, "vm-1"))
    assert cloud.processes("vm-1") == []
    assert statuses(backend) == {"vm-1": VmStatus.GONE}


def test_of_two_agents_the_one_with_the_lock_ends_the_other(cloud, monkeypatch, tmp_path):
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    clock = Clock.start()
    with monkeypatch.context() as patched:
        patched.setattr(local_backend.sys, "executable", str(hangs))
        launch(cloud.backend(clock=clock), "vm-1")
    until(lambda: cloud.processes("vm-1"))  # its tag is there once it is more than forked
    (hung,) = cloud.processes("vm-1")
    backend = cloud.backend(clock=clock)  # another controller's
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    assert hung not in cloud.processes("vm-1")
    os.waitpid(hung, 0)
    backend.terminate(["vm-1"])
    until(has(backend, VmEventKind.TERMINATED, "vm-1"))


def test_a_vm_that_hangs_is_lost_and_billed_until_it_is_ended(cloud, monkeypatch):
    # Within 15 s by default; the test does not wait for so long.
    assert local_backend._LOST_AFTER_S < 15.0
    monkeypatch.setattr(local_backend, "_LOST_AFTER_S", 2.5)
    monkeypatch.setattr(local_backend, "_END_PATIENCE_S", 0.5)
    backend = cloud.backend(PoolScript(happenings=((1, Happening(Act.HANG, at_iteration=2)),)))
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    backend.start_workers(world(1, ("vm-1", 1)))
    until(has(backend, VmEventKind.LOST, "vm-1"))
    (state,) = backend.reconcile()
    assert (state.status, state.is_billed) == (VmStatus.LOST, True)
    backend.terminate(["vm-1"])
    until(has(backend, VmEventKind.TERMINATED, "vm-1"))
    until(lambda: not cloud.processes("vm-1"))
    assert not backend.reconcile()[0].is_billed


def test_a_vm_that_wakes_up_again_has_recovered(cloud, monkeypatch):
    monkeypatch.setattr(local_backend, "_LOST_AFTER_S", 2.5)
    backend = cloud.backend()
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    os.kill(cloud.agent("vm-1"), signal.SIGSTOP)
    until(has(backend, VmEventKind.LOST, "vm-1"))
    os.kill(cloud.agent("vm-1"), signal.SIGCONT)
    until(has(backend, VmEventKind.RECOVERED, "vm-1"))
    assert statuses(backend) == {"vm-1": VmStatus.RUNNING}


def test_a_slow_vm_takes_longer_whether_it_computes_or_is_played(cloud):
    slow = Happening(Act.SLOW, after_s=0.0, factor=4.0)
    backend = cloud.backend(PoolScript(happenings=((1, slow),)), factor=10.0)
    launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    played = World(
        1,
        (WorldVm("vm-1", 1, pace_s=0.5), WorldVm("vm-2", 1, pace_s=0.5)),
        (WORKER, "5", "0"),
        "4,4",
    )
    backend.start_workers(played)
    until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.ENDED})
    paces = {
        lines.rank: {json.loads(line)["seconds"] for line in lines.lines}
        for lines in backend.progress({})
    }
    assert paces == {0: {0.2}, 1: {0.05}}


def test_a_slow_vm_that_computes_is_stopped_for_a_part_of_the_time(cloud):
    slow = Happening(Act.SLOW, after_s=0.0, factor=20.0)
    backend = cloud.backend(PoolScript(happenings=((1, slow),)))
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    backend.start_workers(world(1, ("vm-1", 1)))
    worker = RunFolder(cloud.folder.resolve()).vm("vm-1").tag
    until(lambda: [state_of(pid) for pid in tagged(worker, "RANK=0")] == ["T"])
    (before,) = backend.progress({}) or [None]
    until(lambda: len(backend.progress({0: before.after if before else 0})) == 1)


def test_a_controller_made_anew_goes_on_with_what_is_there(cloud):
    clock = Clock.start()
    before = cloud.backend(clock=clock)
    prepared = before.prepare(request("vm-1", "vm-2"))
    before.launch(prepared)
    until(has(before, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    before.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    after = cloud.backend(clock=clock)
    after.launch(prepared)
    assert after.events(0) == before.events(0)
    assert statuses(after) == {"vm-1": VmStatus.RUNNING, "vm-2": VmStatus.RUNNING}
    until(lambda: len(after.progress({})) == 2)
    after.terminate(["vm-1", "vm-2"])
    until(has(after, VmEventKind.TERMINATED, "vm-1", "vm-2"))
    until(lambda: not cloud.processes("vm-1") and not cloud.processes("vm-2"))


def test_a_request_that_was_written_down_is_granted_whoever_was_killed_since(cloud, monkeypatch):
    backend = cloud.backend(PoolScript(answers=(None, "Unsupported")))
    with monkeypatch.context() as broken:
        broken.setattr(LocalBackend, "_answer", lambda *_: None)
        launch(backend, "vm-1", "vm-2")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    until(has(backend, VmEventKind.FAILED, "vm-2"))


def test_a_folder_of_code_that_is_not_there_is_told(cloud, tmp_path):
    """Before anything is launched, and where it went since, as workers that could not start."""
    folder = tmp_path / "code"
    settings = RunSettings(workdir=str(folder))
    backend = cloud.backend()
    with pytest.raises(InputError, match="there is no folder"):
        launch(backend, "vm-1", settings=settings)
    folder.mkdir()
    launch(backend, "vm-1", settings=settings)
    folder.rmdir()
    backend.start_workers(world(1, ("vm-1", 1)))
    until(lambda: [each.exit_code for each in backend.workers()] == [127])
    assert "could not be started" in Path(backend.workers()[0].log).read_text()


def test_a_name_is_used_once(cloud):
    backend = cloud.backend()
    launch(backend, "vm-1")
    with pytest.raises(InputError, match="another request"):
        launch(backend, "vm-1", run_id="run-2")


def test_a_torn_line_of_the_journal_is_passed_over(cloud):
    backend = cloud.backend()
    launch(backend, "vm-1")
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    with RunFolder(cloud.folder).journal.open("a") as journal:
        journal.write('{"at_s": 12.')
    assert len(backend.events(0)) == 1
    backend.terminate(["vm-1"])
    until(has(backend, VmEventKind.TERMINATED, "vm-1"))
    assert len(backend.events(0)) == 2


def control(folder: Path, clock: Clock, say) -> None:
    """A controller that launches, starts workers, and looks; to be killed."""
    backend = LocalBackend(folder, clock, launcher=Launcher.PLAIN)
    say.send("begun")
    backend.launch(backend.prepare(request("vm-1", "vm-2", "vm-3")))
    backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    while True:
        backend.events(0)


@pytest.mark.parametrize("seed", range(3))
def test_a_controller_killed_at_any_point_is_followed_by_one_that_does_it_all_again(cloud, seed):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.cloud.local.test_backend"])
    heard, say = context.Pipe(duplex=False)
    clock = Clock.start()
    controller = context.Process(target=control, args=(cloud.folder, clock, say))
    with heard, say:
        controller.start()
        heard.recv()
        time.sleep(random.Random(seed).uniform(0.0, 0.02))
        controller.kill()
        controller.join()
    backend = cloud.backend(clock=clock)
    launch(backend, "vm-1", "vm-2", "vm-3")
    backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2", "vm-3"))
    until(lambda: len(backend.progress({})) == 2)
    assert len(backend.events(0)) == 3
    for vm in ("vm-1", "vm-2"):
        workers = tagged(RunFolder(cloud.folder.resolve()).vm(vm).tag, "LOCAL_RANK=0")
        assert len(workers) == 1
    backend.terminate(["vm-1", "vm-2", "vm-3"])
    until(lambda: not any(cloud.processes(vm) for vm in ("vm-1", "vm-2", "vm-3")))
    assert not any(state.is_billed for state in backend.reconcile())
