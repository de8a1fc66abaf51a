"""The contract on a Ray cluster of this machine; to be run where `lo` alone is up."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import ray

from srifty.cloud.backend import VmStatus, WorkersStatus
from srifty.cloud.clock import Clock
from srifty.cloud.export import on_ray
from srifty.cloud.ray_backend import Nodes, RayBackend, RaySession
from srifty.cloud.ray_backend.cluster_file import node_type
from srifty.core.events import VmEventKind
from tests.cloud.contract import SPOT, BackendContract, has, request, statuses, until, world
from tests.cloud.ray_backend.clusters import add_node, head_alone


@pytest.fixture(scope="module")
def cluster():
    made = head_alone()
    for _ in range(3):  # one more than most tests need, to take a lost one's place
        add_node(made, node_type(SPOT), 2)
    yield made
    ray.shutdown()
    made.shutdown()


class Runs:
    """Makes back ends of one run, and leaves none of its agents."""

    def __init__(self, cluster, folder):
        self.folder = folder
        self.session = RaySession("run-1", cluster.address)

    def backend(self, factor=1.0):
        clock = Clock.start(factor)
        nodes = Nodes(are_rented=False, agents=str(self.folder / "agents"))
        return RayBackend(self.folder / "run", clock, self.session, nodes=nodes)

    def close(self):
        for vm in ("vm-1", "vm-2", "vm-3"):
            self.session.forget(vm)


@pytest.fixture
def runs(cluster, tmp_path):
    made = Runs(cluster, tmp_path)
    yield made
    made.close()


class TestContract(BackendContract):
    @pytest.fixture
    def backend(self, runs):
        return runs.backend()


def launch(backend, *names):
    backend.launch(backend.prepare(request(*names)))
    until(has(backend, VmEventKind.LAUNCHED, *names))


def test_a_new_controller_finds_all_as_it_was(runs):
    backend = runs.backend()
    launch(backend, "vm-1")
    backend.start_workers(world(1, ("vm-1", 1)))
    until(lambda: len(backend.progress({})) == 1)
    (before,) = backend.progress({})
    again = runs.backend()
    assert again.events(0)[:1] == backend.events(0)[:1]
    assert statuses(again) == {"vm-1": VmStatus.RUNNING}
    until(lambda: again.progress({0: before.after}))
    assert [each.status for each in again.workers()] == [WorkersStatus.RUNNING]


def test_vms_end_themselves_without_a_controller(runs):
    backend = runs.backend()
    backend.launch(backend.prepare(request("vm-1", silence_s=1.5)))
    until(has(backend, VmEventKind.LAUNCHED, "vm-1"))
    backend.start_workers(world(1, ("vm-1", 1)))
    until(lambda: backend.progress({}))
    time.sleep(4.0)  # nobody asks for longer than the VM waits
    again = runs.backend()
    until(has(again, VmEventKind.TERMINATED, "vm-1"))
    assert "the controller was not heard of" in again.events(0)[-1].detail
    assert statuses(again) == {"vm-1": VmStatus.GONE}


def test_a_node_that_dies_is_told_and_its_vm_is_replaced(runs, cluster):
    backend = runs.backend()
    launch(backend, "vm-1", "vm-2")
    backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1)))
    until(lambda: len(backend.progress({})) == 2)
    of_vm = inside("vm-2", lambda _: ray.get_runtime_context().get_node_id())
    (node,) = [each for each in cluster.worker_nodes if each.node_id == of_vm]
    cluster.remove_node(node, allow_graceful=False)
    until(lambda: any(event.kind is VmEventKind.LOST for event in backend.events(0)))
    # Ray gives a node up a while after its agent was last heard of.
    until(lambda: statuses(backend) == {"vm-1": VmStatus.RUNNING, "vm-2": VmStatus.GONE})
    backend.stop_workers(save=False)
    backend.launch(backend.prepare(request("vm-3")))
    until(has(backend, VmEventKind.LAUNCHED, "vm-3"))
    backend.start_workers(world(2, ("vm-1", 1), ("vm-3", 2), steps=3))
    until(lambda: {each.exit_code for each in backend.workers()} == {0})
    assert sorted(lines.rank for lines in backend.progress({})) == [0, 1, 2]
    backend.terminate(["vm-3"])
    until(has(backend, VmEventKind.TERMINATED, "vm-3"))


def test_an_agent_that_hangs_is_lost_and_found(runs):
    backend = runs.backend()
    launch(backend, "vm-1")
    pid = inside("vm-1", lambda _: os.getpid())
    os.kill(pid, signal.SIGSTOP)
    try:
        until(has(backend, VmEventKind.LOST, "vm-1"))
        assert [state.is_billed for state in backend.reconcile()] == [True]
    finally:
        os.kill(pid, signal.SIGCONT)
    until(has(backend, VmEventKind.RECOVERED, "vm-1"))
    assert statuses(backend) == {"vm-1": VmStatus.RUNNING}


def test_what_is_exported_starts_its_workers(cluster, tmp_path):
    script = tmp_path / "report.py"
    script.write_text(
        "import os, pathlib\n"
        "rank = int(os.environ['RANK'])\n"
        "share = os.environ['SRIFTY_SHARES'].split(',')[rank]\n"
        "told = f\"{os.environ['WORLD_SIZE']}: {share} {os.environ['TOKEN']}\"\n"
        "pathlib.Path(__file__).with_name(f'worker-{rank}').write_text(told)\n"
    )
    described = {
        "vms": [{"resource": "an-offer", "workers": 2}, {"resource": "an-offer", "workers": 1}],
        "command": [str(script)],
        "variables": {"SRIFTY_SHARES": "5,3,2"},
        "secrets": ["TOKEN"],
        "folder": str(tmp_path),
    }
    path = tmp_path / "world.json"
    path.write_text(json.dumps(described))
    command = [sys.executable, on_ray.__file__, str(path)]
    variables = {**os.environ, "RAY_ADDRESS": cluster.address}
    without = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (without.returncode, "TOKEN" in without.stderr) == (2, True)
    variables["TOKEN"] = "hush"
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [(tmp_path / f"worker-{rank}").read_text() for rank in range(3)]
    assert told == ["3: 5 hush", "3: 3 hush", "3: 2 hush"]
    described["command"] = [str(tmp_path / "none.py")]
    path.write_text(json.dumps(described))
    failed = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert failed.returncode == 1


def inside(vm, look):
    """What a function finds in the process of a VM's agent."""
    handle = ray.get_actor(vm, namespace="srifty-run-1")
    return ray.get(handle.__ray_call__.remote(look))
