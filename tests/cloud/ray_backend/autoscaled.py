"""Our cluster file before Ray's own autoscaler; to be run where `lo` alone is up."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import ray
from ray.autoscaler._private.util import prepare_config

from srifty.cloud.backend import LaunchRequest, VmRequest
from srifty.cloud.clock import Clock
from srifty.cloud.ray_backend import Nodes, RayBackend, RaySession, cluster_file
from srifty.cloud.ray_backend.cluster_file import node_type
from srifty.core.events import LaunchFailure, Pool, VmEventKind
from srifty.core.offers import Location, Market
from srifty.core.settings import RunSettings
from tests.cloud.contract import SPOT, has

HERE = SPOT.location
REFUSED = Pool("p3.8xlarge", HERE, Market.ON_DEMAND)
UNHEARD_OF = Pool("g4dn.xlarge", Location("us-east-1", "us-east-1b"), Market.SPOT)
ADDRESS = "127.0.0.1:6379"


# The autoscaler tries again by itself where this machine is too busy to start a node in time.
PATIENCE_S = 400.0


def until(found):
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < PATIENCE_S, "it never came"
        time.sleep(0.2)


def request(**pools):
    vms = tuple(VmRequest(name.replace("_", "-"), pool, 2, 0.5) for name, pool in pools.items())
    settings = RunSettings(checkpoint="s3://bucket/run-1")
    return LaunchRequest("run-1", "me", vms, 1e6, settings=settings)


@pytest.fixture
def head(tmp_path, monkeypatch):
    """A head as Ray's launcher leaves it, whose cloud is this machine."""
    file = cluster_file(request(a=SPOT, b=SPOT, c=SPOT, d=REFUSED), "aws", None)
    types = file["available_node_types"]
    for kind in types.values():
        kind["node_config"] = {}
        kind["resources"] = {"CPU": 1} | kind["resources"]
    types["ray.head.default"] = types.pop(file["head_node_type"])
    # A minute is long.
    file |= {"head_node_type": "ray.head.default", "idle_timeout_minutes": 0.1}
    file["provider"] = {
        "type": "external",
        "module": "tests.cloud.ray_backend.fake_cloud.FakeCloud",
        "gcs_address": ADDRESS,
        "launch_multiple": True,
    }
    # What the launcher adds for clouds that it knows.
    file |= {f"{whose}_setup_commands": [] for whose in ("head", "worker")}
    file |= {"initialization_commands": [], "cluster_synced_files": []}
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "ray_bootstrap_config.yaml"
    path.write_text(json.dumps(prepare_config(file)))
    variables = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    (start,) = [each for each in file["head_start_ray_commands"] if "ray start" in each]
    start = start.replace("~/ray_bootstrap_config.yaml", str(path))
    # `ray` of this environment, and nothing that answers beyond it.
    bin_folder = Path(sys.executable).parent
    told = (tmp_path / "ray.log").open("w")
    process = subprocess.Popen(
        f"{start} --num-cpus=0 --include-dashboard=false --block",
        shell=True,
        env={**os.environ, **variables, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        stdout=told,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    told.close()
    session = RaySession("run-1", ADDRESS)

    def is_up():
        assert process.poll() is None, (tmp_path / "ray.log").read_text()
        with suppress(Exception):
            return session.is_there()
        return False

    until(is_up)
    yield session
    ray.shutdown()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def nodes(pool):
    """How many of a pool's nodes there are."""
    return sum(node["Resources"].get(node_type(pool), 0) for node in ray.nodes() if node["Alive"])


def test_the_autoscaler_makes_what_is_asked_for_and_nothing_else(head, tmp_path):
    rented = Nodes(agents=str(tmp_path / "agents"), end_command=())
    backend = RayBackend(tmp_path / "run", Clock.start(), head, nodes=rented)

    def launch(**pools):
        backend.launch(backend.prepare(request(**pools)))

    def failures():
        events = [event for event in backend.events(0) if event.kind is VmEventKind.FAILED]
        return {event.vm: (event.failure, event.detail) for event in events}

    launch(vm_1=SPOT, vm_2=SPOT, vm_3=REFUSED, vm_4=UNHEARD_OF)
    assert failures()["vm-4"][0] is LaunchFailure.UNSUPPORTED
    until(lambda: "vm-3" in failures())
    assert failures()["vm-3"][0] is LaunchFailure.CAPACITY
    assert "none left in 1a" in failures()["vm-3"][1]
    until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
    assert (nodes(SPOT), nodes(REFUSED)) == (2, 0)
    # Three may be had of them, and two are asked for; then one.
    backend.terminate(["vm-1"])
    until(has(backend, VmEventKind.TERMINATED, "vm-1"))

    def is_given_back():
        backend.events(0)
        return nodes(SPOT) == 1

    until(is_given_back)
    launch(vm_5=SPOT)
    until(has(backend, VmEventKind.LAUNCHED, "vm-5"))
    until(lambda: nodes(SPOT) == 2)
