"""What the back end does with the answers of a cluster that is made up."""

import json
import time
from dataclasses import asdict

import pytest

from srifty.cloud.clock import Clock
from srifty.cloud.ray_backend import Nodes, RayBackend
from srifty.cloud.ray_backend.agent import Report
from srifty.cloud.ray_backend.cluster_file import node_type
from srifty.cloud.ray_backend.session import Answer, Silence
from srifty.core.events import LaunchFailure, VmEventKind
from srifty.core.settings import RunSettings
from srifty.errors import InputError
from tests.cloud.contract import SPOT, request

SECRET = "hush-7d1e"


class MadeUp:
    """A session with a cluster whose nodes and refusals are set."""

    def __init__(self):
        self.made = {}
        self.up = set()
        self.nodes = {}
        self.addresses = {"127.0.0.1"}
        self.status = {}
        self.told = []

    def make_agent(self, vm, resource, gpus, setup):
        self.made[vm] = setup

    def ask(self, vms, method):
        report = Report(time.time(), 0, None, None, "")
        return {
            vm: Answer(asdict(report)) if vm in self.up else Answer(silence=Silence.UNHEARD)
            for vm in vms
        }

    def tell(self, vm, method, *arguments, **options):
        self.told.append((vm, method))

    def forget(self, vm):
        self.made.pop(vm, None)

    def resources(self):
        return self.nodes

    def hosts(self):
        return self.addresses

    def autoscaler_status(self):
        return self.status


@pytest.fixture
def cluster():
    return MadeUp()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def backend(cluster, folder, *, are_rented):
    nodes = Nodes(are_rented, agents=str(folder / "agents"), end_command=())
    return RayBackend(folder / "run", Clock.start(), cluster, nodes=nodes)


def failures(made):
    events = [event for event in made.events(0) if event.kind is VmEventKind.FAILED]
    return {event.vm: (event.failure, event.detail) for event in events}


def test_vms_for_which_a_cluster_of_ones_own_has_no_node_are_refused(cluster, home, monkeypatch):
    made = backend(cluster, home, are_rented=False)
    cluster.nodes = {node_type(SPOT): 1.0}
    made.launch(made.prepare(request("vm-1", "vm-2")))
    assert failures(made) == {}
    later = time.time() + 60
    monkeypatch.setattr("srifty.cloud.ray_backend.launch_failures.time.time", lambda: later)
    made.terminate([])  # looks at once
    ((vm, (why, words)),) = failures(made).items()
    assert (vm, why) == ("vm-2", LaunchFailure.CAPACITY)
    assert f"--num-gpus=2 --resources='{{\"{node_type(SPOT)}\": 1}}'" in words
    assert set(cluster.made) == {"vm-1"}


def test_what_the_autoscaler_reports_is_a_refusal(cluster, home):
    made = backend(cluster, home, are_rented=True)
    settings = RunSettings(checkpoint="s3://bucket/r")
    made.launch(made.prepare(request("vm-1", settings=settings)))
    why = {"category": "VcpuLimitExceeded", "description": "limit of 32 vCPU"}
    entry = {"last_checked_timestamp": time.time() + 1, "unavailable_node_information": why}
    summary = {"node_availabilities": {node_type(SPOT): entry}}
    cluster.status = {"autoscaler_report": {"node_availability_summary": summary}}
    made.terminate([])
    assert failures(made)["vm-1"] == (LaunchFailure.QUOTA, "VcpuLimitExceeded: limit of 32 vCPU")


def test_a_type_that_the_heads_cluster_file_lacks_is_not_waited_for(cluster, home):
    file = {"available_node_types": {"head": {}, "g4dn.xlarge-spot-us-east-1": {}}}
    (home / "ray_bootstrap_config.yaml").write_text(json.dumps(file))
    made = backend(cluster, home, are_rented=True)
    settings = RunSettings(checkpoint="s3://bucket/r")
    made.launch(made.prepare(request("vm-1", settings=settings)))
    why, words = failures(made)["vm-1"]
    assert why is LaunchFailure.UNSUPPORTED
    assert "--cluster-file" in words
    assert cluster.made == {}


@pytest.mark.parametrize("are_rented", [True, False])
def test_machines_that_share_no_folder_need_a_place_for_checkpoints(cluster, home, are_rented):
    cluster.addresses = {"10.0.0.1", "10.0.0.2"}
    made = backend(cluster, home, are_rented=are_rented)
    with pytest.raises(InputError, match=r"run\.checkpoint"):
        made.prepare(request("vm-1"))
    made.prepare(request("vm-1", settings=RunSettings(checkpoint="/shared/r")))


@pytest.mark.parametrize("are_rented", [True, False])
def test_secrets_are_kept_by_name_alone(cluster, home, monkeypatch, are_rented):
    monkeypatch.setenv("A_SECRET", SECRET)
    settings = RunSettings(checkpoint="s3://bucket/r", secrets=("A_SECRET",))
    made = backend(cluster, home, are_rented=are_rented)
    prepared = made.prepare(request("vm-1", settings=settings))
    made.launch(prepared)
    cluster.up.add("vm-1")
    made.terminate([])
    kept = [path.read_text() for path in home.rglob("*") if path.is_file()]
    assert any("A_SECRET" in text for text in kept)
    everything = [*kept, json.dumps(dict(prepared.document)), json.dumps(cluster.made)]
    assert not any(SECRET in text for text in everything)


def test_only_rented_vms_are_told_how_to_end_themselves_and_where_notices_are(cluster, home):
    settings = RunSettings(checkpoint="s3://bucket/r")
    for are_rented, signs, notices in ((True, "/run/srifty", "ec2"), (False, "", "")):
        made = backend(cluster, home / str(are_rented), are_rented=are_rented)
        made.launch(made.prepare(request("vm-1", settings=settings)))
        setup = cluster.made["vm-1"]
        assert (setup["signs"], setup["notices"], setup["silence_s"]) == (signs, notices, 900.0)
