"""What every back end must do; a test class of a back end inherits it and says how to make one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from srifty.cloud.backend import (
    Backend,
    LaunchRequest,
    VmRequest,
    VmStatus,
    WorkersStatus,
    World,
    WorldVm,
)
from srifty.core.events import Pool, VmEvent, VmEventKind
from srifty.core.offers import Location, Market
from srifty.core.settings import RunSettings
from srifty.errors import InputError

SPOT = Pool("g3.8xlarge", Location("us-east-1", "us-east-1a"), Market.SPOT)
ON_DEMAND = Pool("g3.8xlarge", Location("us-east-1", "us-east-1a"), Market.ON_DEMAND)
WORKER = str(Path(__file__).with_name("tiny_worker.py"))
# Nothing here is on the clock: this is how long a broken back end is waited for.
PATIENCE_S = 90.0


def request(*names: str, pool: Pool = SPOT, gpus: int = 2, **changes) -> LaunchRequest:
    vms = tuple(VmRequest(name, pool, gpus, 0.5) for name in names)
    return LaunchRequest(
        **{"run_id": "run-1", "user": "me", "vms": vms, "hard_end_s": 1e6} | changes
    )


def world(generation: int, *vms: tuple[str, int], steps: int = 100_000, **changes) -> World:
    members = tuple(WorldVm(name, workers) for name, workers in vms)
    shares = ",".join("4" for _, workers in vms for _ in range(workers))
    return World(generation, members, (WORKER, str(steps), "0.02"), shares, **changes)


def until(found: Callable[[], object]) -> None:
    """Asks until something is so."""
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < PATIENCE_S, "it never came"
        time.sleep(0.05)


def has(backend: Backend, kind: VmEventKind, *vms: str) -> Callable[[], bool]:
    """Whether each of some VMs has an event of a kind."""
    return lambda: set(vms) <= {event.vm for event in backend.events(0) if event.kind is kind}


def statuses(backend: Backend) -> dict[str, VmStatus]:
    return {state.vm: state.status for state in backend.reconcile()}


class BackendContract:
    """Inherit it, and give a fixture `backend`: VMs start soon, and end with the test."""

    def launch(self, backend: Backend, *names: str, **changes) -> None:
        backend.launch(backend.prepare(request(*names, **changes)))
        until(has(backend, VmEventKind.LAUNCHED, *names))

    def test_prepare_shows_the_request_and_changes_nothing(self, backend, monkeypatch):
        monkeypatch.setenv("A_SECRET", "hush")
        settings = RunSettings(secrets=("A_SECRET",), tags=(("team", "vision"),))
        prepared = backend.prepare(request("vm-1", "vm-2", settings=settings))
        text = json.dumps(dict(prepared.document))
        assert prepared.backend == backend.name
        assert "hush" not in text
        for word in ("A_SECRET", "vision", "run-1", "me", "vm-1", "vm-2", "g3.8xlarge", "spot"):
            assert word in text
        assert backend.events(0) == []
        assert backend.reconcile() == []

    def test_a_secret_that_is_not_set_is_named(self, backend):
        with pytest.raises(InputError, match="NO_SUCH_SECRET"):
            backend.prepare(request("vm-1", settings=RunSettings(secrets=("NO_SUCH_SECRET",))))

    def test_vms_are_launched_once_and_end_when_told(self, backend):
        prepared = backend.prepare(request("vm-1", "vm-2"))
        backend.launch(prepared)
        backend.launch(prepared)
        until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
        backend.launch(prepared)
        backend.terminate(["vm-1"])
        until(has(backend, VmEventKind.TERMINATED, "vm-1"))
        backend.terminate(["vm-1"])
        states = {state.vm: state for state in backend.reconcile()}
        assert [states["vm-1"].is_billed, states["vm-2"].is_billed] == [False, True]
        assert states["vm-1"].stopped_s >= states["vm-1"].running_s
        assert states["vm-2"].status is VmStatus.RUNNING
        launched = [event.vm for event in backend.events(0) if event.kind is VmEventKind.LAUNCHED]
        assert sorted(launched) == ["vm-1", "vm-2"]

    def test_events_last_and_only_grow(self, backend):
        self.launch(backend, "vm-1")
        before: list[VmEvent] = backend.events(0)
        backend.terminate(["vm-1"])
        until(has(backend, VmEventKind.TERMINATED, "vm-1"))
        after = backend.events(0)
        assert after[: len(before)] == before
        assert backend.events(len(before)) == after[len(before) :]
        assert all(event.pool == SPOT for event in after)

    def test_a_vm_of_another_run_is_refused(self, backend):
        with pytest.raises(InputError, match="vm-9"):
            backend.terminate(["vm-9"])
        with pytest.raises(InputError, match="vm-9"):
            backend.start_workers(world(1, ("vm-9", 1)))

    def test_workers_run_log_and_end(self, backend):
        self.launch(backend, "vm-1", "vm-2")
        assert backend.workers() == []
        backend.start_workers(world(1, ("vm-1", 2), ("vm-2", 1), steps=5))
        until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.ENDED})
        assert [(each.vm, each.exit_code) for each in backend.workers()] == [
            ("vm-1", 0),
            ("vm-2", 0),
        ]
        logged = {lines.rank: lines for lines in backend.progress({})}
        assert sorted(logged) == [0, 1, 2]
        assert [json.loads(line)["step"] for line in logged[2].lines] == [0, 1, 2, 3, 4]
        assert backend.progress({rank: lines.after for rank, lines in logged.items()}) == []

    def test_a_world_stops_when_asked_and_another_begins(self, backend):
        self.launch(backend, "vm-1", "vm-2")
        first = world(1, ("vm-1", 1), ("vm-2", 1))
        backend.start_workers(first)
        until(lambda: len(backend.progress({})) == 2)
        backend.start_workers(first)  # nothing is started twice
        backend.stop_workers(save=True)
        until(lambda: {each.exit_code for each in backend.workers()} == {0})
        backend.start_workers(world(2, ("vm-2", 2)))
        until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.RUNNING})
        assert [each.generation for each in backend.workers()] == [2]
        backend.stop_workers(save=False)
        until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.ENDED})
        assert all(each.exit_code for each in backend.workers())
        with pytest.raises(InputError, match="generation 1 is over"):
            backend.start_workers(first)

    def test_more_workers_than_gpus_are_refused(self, backend):
        self.launch(backend, "vm-1")
        with pytest.raises(InputError, match="2 GPUs"):
            backend.start_workers(world(1, ("vm-1", 3)))

    def test_a_worker_that_fails_is_told(self, backend):
        self.launch(backend, "vm-1")
        broken = World(1, (WorldVm("vm-1", 2),), (WORKER, "none"), "4,4")
        backend.start_workers(broken)
        until(lambda: {each.status for each in backend.workers()} == {WorkersStatus.ENDED})
        assert backend.workers()[0].exit_code not in (0, None)

    def test_vms_end_themselves_at_the_hard_end(self, backend):
        backend.launch(backend.prepare(request("vm-1", hard_end_s=0.001)))
        until(has(backend, VmEventKind.TERMINATED, "vm-1"))
        assert statuses(backend) == {"vm-1": VmStatus.GONE}
