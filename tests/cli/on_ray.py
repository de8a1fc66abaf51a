"""Whole runs on a Ray cluster of this machine; to be run where `lo` alone is up."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray
import torch

from srifty.cli._runs import find_run
from srifty.control.ledger import Ledger
from tests.cloud.ray_backend.clusters import add_node, head_alone
from tests.command import profile_document, srifty

SCRIPT = Path(__file__).with_name("seeded_resnet.py")
SECRET = "hush-5f3c0d7e"
STEPS = 40
# Nothing here is on the clock: this is how long a broken run is waited for.
PATIENCE_S = 240.0
JOB = f"""\
name: small-resnet
workload: [t4.json, m60.json]
global_batch: 64
iterations: {STEPS}
minimize: time
budget_usd: 5
confidence: 0.5
overheads: {{launch: 5s, setup: 5s, restore: 5s, checkpoint: {{every: 5, takes: 0.1s}}}}
offers:
  markets: [spot]
  quota: {{g4dn.xlarge: 1, g3.8xlarge: 1}}
  prices: {{g4dn.xlarge: {{spot: 0.21}}, g3.8xlarge: {{spot: 0.40}}}}
run: {{secrets: [TOKEN_OF_MINE], tags: {{team: vision}}}}
"""
T4, M60 = "g4dn.xlarge-spot-us-east-1", "g3.8xlarge-spot-us-east-1"


def profile(gpu, seconds_of_64):
    """A GPU whose time is in proportion to the batch."""
    return profile_document(
        gpu=gpu,
        latencies=[
            {
                "batch": batch,
                "forward_s": seconds_of_64 * batch / 64 * 0.3,
                "backward_s": seconds_of_64 * batch / 64 * 0.7,
            }
            for batch in (8, 32, 64)
        ],
        gradients=[{"name": "weights", "bytes": 400000, "ready": 0.9}],
    )


@pytest.fixture(scope="module")
def cluster():
    made = head_alone()
    add_node(made, T4, 1)
    add_node(made, M60, 2)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def place(cluster, tmp_path, monkeypatch):
    variables = {
        "RAY_ADDRESS": cluster.address,
        "SRIFTY_RUNS": str(tmp_path / "runs"),
        "SRIFTY_CATALOG": str(tmp_path / "catalog.csv"),
        "HOME": str(tmp_path),
        "TOKEN_OF_MINE": SECRET,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "t4.json").write_text(json.dumps(profile("T4", 1.2)))
    (tmp_path / "m60.json").write_text(json.dumps(profile("M60", 2.4)))
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def start(place, *arguments):
    """A command in a process of its own; what it tells goes to `told`."""
    with (place / "told").open("a") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "srifty", *map(str, arguments)],
            cwd=place,
            stdout=told,
            stderr=subprocess.STDOUT,
        )


def start_run(place):
    options = ("--yes", "--backend", "ray", "--name", "r1", "--play-gpus")
    return start(place, "run", *options, place / "job.yaml", "--", SCRIPT)


def until(found, place):
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < PATIENCE_S, (place / "told").read_text()
        time.sleep(0.2)


def ended(process, place):
    """The exit code of a command that comes to its end."""
    until(lambda: process.poll() is not None, place)
    return process.returncode


def status():
    return json.loads(srifty("status", "r1", "--json").out)


def has_begun(place):
    if not (place / "runs" / "r1" / "ledger.db").exists():
        return False
    return status()["iteration"] >= 2


def worlds():
    """The shares of each world that the run started."""
    with Ledger.read(find_run("r1").ledger) as ledger:
        return [step.document["shares"] for step in ledger.steps() if step.kind == "world"]


def parameters(folder):
    """What the last checkpoint in a folder holds of the model."""
    state = torch.load(folder / f"step-{STEPS:012d}" / "state.pt", weights_only=True)
    return torch.cat([each.flatten() for each in state["model"].values()])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The parameters of the same training by one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    variables = {"SRIFTY_CHECKPOINT": str(folder / "checkpoints"), "TOKEN_OF_MINE": "x"}
    subprocess.run(
        [sys.executable, SCRIPT], cwd=folder, env={**os.environ, **variables}, check=True
    )
    return parameters(folder / "checkpoints")


def test_a_run_goes_on_after_its_controller_was_killed(place, undisturbed):
    first = start_run(place)
    until(lambda: has_begun(place), place)
    first.send_signal(signal.SIGKILL)
    assert ended(first, place) == -signal.SIGKILL
    assert status()["state"] == "without a controller"
    assert ended(start(place, "resume", "r1"), place) == 0, (place / "told").read_text()
    assert worlds() == ["32,16,16"]  # the workers trained on meanwhile
    found = parameters(place / "runs" / "r1" / "vms" / "checkpoints")
    assert torch.allclose(found, undisturbed, rtol=0, atol=1e-8)


def test_a_killed_node_is_replanned_and_no_secret_is_left_anywhere(place, undisturbed, cluster):
    run = start_run(place)
    until(lambda: has_begun(place), place)
    (node,) = [each for each in cluster.worker_nodes if M60 in each._ray_params.resources]
    cluster.remove_node(node, allow_graceful=False)
    assert ended(run, place) == 0, (place / "told").read_text()
    assert worlds() == ["32,16,16", "64"]
    document = status()
    assert (document["state"], document["iteration"]) == ("finished", STEPS)
    kinds = {(event["vm"], event["kind"]) for event in document["events"]}
    assert ("vm-2", "lost") in kinds or ("vm-1", "lost") in kinds
    found = parameters(place / "runs" / "r1" / "vms" / "checkpoints")
    assert torch.allclose(found, undisturbed, rtol=0, atol=1e-8)
    session = Path(cluster.head_node.get_session_dir_path())
    for folder in (place, session):
        assert holding(folder, SECRET) == []
    assert holding(place / "runs", "TOKEN_OF_MINE")  # by name it is there


def holding(folder, word):
    """The files that hold a word."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if word.encode() in path.read_bytes()]
