"""`srifty measure`: real profiles and real allreduces on VMs that are played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import srifty as package
from srifty.cloud.local.processes import tagged
from srifty.cloud.local.run_folder import RunFolder
from tests.cases.runs import own_runs
from tests.command import srifty

JOB = """\
name: tiny
workload: [not-there-yet.json]
global_batch: 64
iterations: 100
budget_usd: 2
overheads: {launch: 1s}
offers:
  markets: [on-demand, spot]
  quota: {g4dn.xlarge: 2, g3.8xlarge: {spot: 1}}
  prices: {g4dn.xlarge: {spot: 0.2, on-demand: 0.5}, g3.8xlarge: {spot: 0.9}}
"""
FACTORY = ("--factory", "tests.cli.tiny_workload:make")
PAIR = ("--set", "offers.quota={g4dn.xlarge: 2}")
QUICK = ("--seconds", "1", "--probe-seconds", "1", "--max-batch", "16")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_DB", str(tmp_path / "own.db"))
    paths = (str(Path(package.__file__).parents[1]), str(ROOT))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    with own_runs(tmp_path, monkeypatch):
        (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
        yield tmp_path


def scenario(place: Path, **document) -> tuple[str, str]:
    path = place / "scenario.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return "--scenario", str(path)


def is_gone(place: Path) -> bool:
    """Whether nothing is left, once those that said so have ended."""
    until_s = time.monotonic() + 60
    while processes(place) and time.monotonic() < until_s:
        time.sleep(0.05)
    return not processes(place)


def processes(place: Path) -> list[int]:
    folders = (place / "runs").glob("*/vms/*")
    vms = [vm for folder in folders for vm in RunFolder(folder.resolve()).all_vms()]
    return [pid for vm in vms for pid in tagged(vm.tag)]


def test_a_dry_run_shows_requests_commands_and_costs(place):
    shown = srifty("measure", place / "job.yaml", *FACTORY, *QUICK, "--dry-run", "--json")
    assert shown.code == 0, shown.err
    document = json.loads(shown.out)
    assert document["usd_per_hour"] == pytest.approx(2 * 0.2 + 0.9)
    assert 0 < document["expected_usd_total"] < document["worst_case_usd_total"]
    pair, lone = document["requests"]
    assert [vm["vm"] for vm in pair["request"]["vms"]] == ["g4dn-1", "g4dn-2"]
    assert pair["commands"] == [
        "srifty profile tests.cli.tiny_workload:make --seconds 1 --max-batch 16",
        "srifty probe --seconds 1 --cloud aws --instance-type g4dn.xlarge --region us-east-1",
    ]
    assert [vm["instance_type"] for vm in lone["request"]["vms"]] == ["g3.8xlarge"]
    assert not (place / "runs").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--factory", "nonsense"), "MODULE:FACTORY"),
        ((), "--yes"),
        (("--set", "offers.quota={g4dn.xlarge: {spot: 1}}"), "nothing to measure"),
        (("--factory", "no_such_module:make", "--yes"), "there is no module 'no_such_module'"),
        (("--set", "budget_usd=null", "--yes"), "say what it may cost at most"),
        (("--max-cost", "0.01", "--yes"), "nothing was rented. Give it more (--max-cost)"),
    ],
)
def test_what_is_refused_before_anything_is_rented(place, options, words):
    ended = srifty("measure", place / "job.yaml", *options)
    assert ended.code == 2
    assert words in ended.err
    assert not (place / "runs").exists()


def test_what_is_measured_can_be_planned_with_and_is_billed(place):
    pytest.importorskip("torch", reason="torch is an extra")
    pools = [
        {"type": "g4dn.xlarge", "market": "spot",
         "answers": [None, "code=InsufficientInstanceCapacity"]}
    ]  # fmt: skip
    ended = srifty(
        "measure", place / "job.yaml", *FACTORY, *QUICK, "--yes", "--json", "--name", "m1",
        "--launcher", "plain", *PAIR, *scenario(place, pools=pools),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert [Path(path).name for path in document["profiles"]] == ["T4.json"]
    assert document["is_played"]
    assert document["samples"] > 0
    assert not (place / "own.db").exists()  # what is played is no real VM's sample
    # One of the first pair was refused: both were given up, and another pair came.
    billed = {line["name"]: line["usd_total"] for line in document["bill"]}
    assert billed["g4dn-2"] == 0
    assert billed["g4dn-3"] > 0
    assert document["spent_usd_total"] == pytest.approx(sum(billed.values()))
    profiles = ", ".join(document["profiles"])
    planned = srifty(
        "plan", place / "job.yaml", "--json", "--set", f"workload=[{profiles}]",
        "--set", f"allreduce={document['store']}", *PAIR,
    )  # fmt: skip
    assert planned.code == 0, planned.err
    assert "2 of 2 measurements" in srifty("status", "m1").out
    assert "g4dn-1" in srifty("report", "m1").out
    assert srifty("resume", "m1").code == 2
    assert is_gone(place)


def test_without_permission_nothing_else_is_tried(place):
    refused = [{"answers": ["code=UnauthorizedOperation op=RunInstances"] * 4}]
    ended = srifty(
        "measure", place / "job.yaml", *FACTORY, "--yes", *scenario(place, pools=refused)
    )
    assert ended.code == 5
    assert "UnauthorizedOperation" in ended.out
    assert "$0.00 in total for this run" in ended.out


def test_what_cannot_be_measured_is_named_and_the_rest_goes_on(place):
    ended = srifty(
        "measure", place / "job.yaml", "--factory", "tests.cli.tiny_workload:nothing",
        "--yes", "--name", "m1",
        "--set", "offers.quota={g4dn.xlarge: {spot: 1}}", "--launcher", "plain",
    )  # fmt: skip
    assert ended.code == 4
    assert "g4dn: profile failed (see" in ended.out


def test_killed_it_is_released_by_stop(place):
    pools = [{"boot": "600s"}]
    command = [sys.executable, "-m", "srifty", "measure", str(place / "job.yaml"), *FACTORY]
    running = subprocess.Popen(
        [*command, "--yes", "--name", "m1", *scenario(place, pools=pools)],
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until_s = time.monotonic() + 120
    while len(processes(place)) < 3 and time.monotonic() < until_s:
        time.sleep(0.05)
    running.kill()
    running.wait()
    assert len(processes(place)) >= 3
    stopped = srifty("stop", "m1")
    assert stopped.code == 0, stopped.err
    assert is_gone(place)
    assert (
        "not gone on with" in srifty("resume", "m1").err
        or "has ended" in srifty("resume", "m1").err
    )
