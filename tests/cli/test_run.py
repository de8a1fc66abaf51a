from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from srifty import __version__
from srifty.cli._runs import find_run, reopened_job
from srifty.cloud.local.processes import kill_all, tagged
from srifty.cloud.local.run_folder import RunFolder
from srifty.control.ledger import Ledger
from srifty.errors import InputError
from tests.command import profile_document, srifty, write_job

WORKER = Path(__file__).parents[1] / "control" / "played_worker.py"
JOB = """\
name: toy
workload: toy.json
global_batch: 64
iterations: 30
budget_usd: 5
confidence: 0.5
overheads: {launch: 1s, restore: 0s}
offers:
  markets: [on-demand, spot]
  quota: {g4dn.xlarge: {spot: 2}, g4dn.2xlarge: {spot: 1, on-demand: 1}}
  prices: {g4dn.xlarge: {spot: 0.2}, g4dn.2xlarge: {spot: 0.3, on-demand: 0.75}}
"""
PROFILE = profile_document(
    latencies=[
        {"batch": 1, "forward_s": 0.01, "backward_s": 0.02},
        {"batch": 64, "forward_s": 0.012, "backward_s": 0.024},
    ],
    gradients=[{"name": "all", "bytes": 4, "ready": 1.0}],
)
OPTIONS = ("--yes", "--name", "r1", "--play-gpus", "--launcher", "plain")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("SRIFTY_CATALOG", str(tmp_path / "catalog.csv"))
    write_job(tmp_path, JOB, PROFILE)
    yield tmp_path
    for run in (tmp_path / "runs").glob("*/vms"):
        for files in RunFolder(run.resolve()).all_vms():
            kill_all(tagged(files.tag))


def scenario(place: Path, text: str) -> tuple[str, str]:
    path = place / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    return "--scenario", str(path)


def run(place: Path, *options: str, steps: int = 30):
    return srifty(
        "run", *OPTIONS, *options, place / "job.yaml", "--", WORKER, str(steps), "5"
    )  # fmt: skip


def test_a_run_from_plan_to_report(place):
    ended = run(place, "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["state"] == "finished"
    assert document["iteration"] == 30
    assert document["srifty"] == __version__
    assert "per hour" in ended.err
    assert "in total" in ended.err
    status = json.loads(srifty("status", "r1", "--json").out)
    assert status["spent_usd_total"] == document["spent_usd_total"]
    forecast = status["forecasts"][0]
    assert forecast["outcome"]["time_s"] == pytest.approx(status["at_s"], abs=1.0)
    assert "finished" in srifty("watch", "r1", "--once").out
    report = srifty("report", "r1").out
    assert "forecast" in report
    assert "training on 1g4dn.xlarge (spot)@64 from iteration 0" in report
    again = srifty("resume", "r1")
    assert again.code == 2
    assert "has ended" in again.err
    assert srifty("stop", "r1").code == 0


def test_the_worst_case_and_the_request_are_shown_before_anything_is_rented(place, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_MINE", "hush")
    text = JOB + "run: {secrets: [TOKEN_OF_MINE], tags: {team: vision}}\n"
    write_job(place, text, PROFILE)
    shown = srifty("run", "--dry-run", "--json", place / "job.yaml", "--", WORKER)
    assert shown.code == 0, shown.err
    document = json.loads(shown.out)
    assert document["request"]["tags"]["team"] == "vision"
    assert document["request"]["secrets"] == ["TOKEN_OF_MINE"]
    assert "hush" not in shown.out
    assert 0 < document["worst_case_usd_total"] <= 5
    assert document["usd_per_hour"] == pytest.approx(0.2)
    assert not (place / "runs").exists()


RENTED = JOB + "run: {secrets: [TOKEN_OF_MINE], checkpoint: 's3://bucket/r'}\n"


def test_what_ray_would_be_asked_for_is_shown_without_a_cluster(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("TOKEN_OF_MINE", "hush")
    write_job(place, RENTED, PROFILE)
    options = ("run", "--backend", "ray", "--dry-run", "--json")
    shown = srifty(*options, place / "job.yaml", "--", WORKER)
    assert shown.code == 0, shown.err
    assert "hush" not in shown.out
    request = json.loads(shown.out)["request"]
    assert request["secrets"] == ["TOKEN_OF_MINE"]
    assert request["cluster"]["available_node_types"].keys() == {
        "head",
        "g4dn.xlarge-spot-us-east-1",
    }
    write_job(place, JOB, PROFILE)
    apart = srifty(*options, place / "job.yaml", "--", WORKER)
    assert apart.code == 2
    assert "run.checkpoint" in apart.err


def test_the_cluster_file_has_a_node_type_for_each_offer(place, monkeypatch):
    monkeypatch.setenv("TOKEN_OF_MINE", "hush")
    write_job(place, RENTED, PROFILE)
    path = place / "cluster.yaml"
    options = ("--backend", "ray", "--name", "r1", "--max-cost", "2", "--cluster-file", path)
    ended = srifty("run", *options, place / "job.yaml", "--", "train.py", "--name", "two words")
    assert ended.code == 0, ended.err
    up, run, *_ = ended.out.splitlines()
    assert up == f"ray up -y {path}"
    for words in ("--yes --backend ray --name r1 --max-cost 2", "two words", "srifty_job/job.yaml"):
        assert words in run
    assert "hush" not in path.read_text() + ended.out
    document = yaml.safe_load(path.read_text())
    most = {
        name: kind.get("max_workers") for name, kind in document["available_node_types"].items()
    }
    assert most == {
        "head": None,
        "g4dn.xlarge-spot-us-east-1": 2,
        "g4dn.2xlarge-spot-us-east-1": 1,
        "g4dn.2xlarge-on-demand-us-east-1": 1,
    }
    assert document["file_mounts"]["~/srifty_job"] == str(place)
    assert not (place / "runs").exists()


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        ((), JOB.replace("budget_usd: 5\n", ""), "--max-cost"),
        (("--name", "x"), JOB, "--yes"),
        (("--yes", "--backend", "moon"), JOB, "no back end"),
        (("--yes", "--backend", "ray", "--scenario", "x.yaml"), JOB, "only VMs of --backend local"),
        (("--yes", "--backend", "ray", "--launcher", "plain"), JOB, "other launchers"),
        (("--yes", "--cluster-file", "c.yaml"), JOB, "only --backend ray"),
    ],
)
def test_what_is_refused_before_anything_is_rented(place, options, text, words):
    write_job(place, text, PROFILE)
    ended = srifty("run", *options, place / "job.yaml", "--", WORKER, "30", "5")
    assert ended.code == 2
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert not (place / "runs").exists()


def test_a_job_without_a_plan_rents_nothing(place):
    ended = run(place, "--max-cost", "0.01", "--set", "deadline=10ms")
    assert ended.code == 3
    assert not (place / "runs").exists()


def test_money_that_is_spent_ends_the_run_with_6(place):
    options = scenario(place, "clock_factor: 30\n")
    ended = run(place, *options, "--set", "iterations=9000", "--set", "budget_usd=0.019",
                "--set", "confidence=0.5", steps=10**6)  # fmt: skip
    assert ended.code == 6, ended.err
    status = json.loads(srifty("status", "r1", "--json").out)
    assert status["spent_usd_total"] <= 0.019


# E10: what each answer to the first type's requests leads to.
@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ("code=InsufficientInstanceCapacity op=RunInstances az=us-east-1a", 0, "g4dn.2xlarge"),
        ("code=Unsupported op=RunInstances az=us-east-2c", 0, "g4dn.2xlarge"),
        ("code=MaxSpotInstanceCountExceeded op=RequestSpotInstances", 0, "g4dn.2xlarge"),
        ('code=VcpuLimitExceeded note="limit 32 vCPU, bucket G-and-VT"', 0, "limit 32 vCPU"),
        ("code=RequestLimitExceeded op=RunInstances", 0, "g4dn.2xlarge"),
        ("code=ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS op=insert", 0, "g4dn.2xlarge"),
        ("code=UnauthorizedOperation op=RunInstances", 5, "UnauthorizedOperation"),
        ("code=NeverHeardOfIt op=RunInstances", 5, "NeverHeardOfIt"),
    ],
)
def test_launch_errors_are_told_apart(place, answer, code, words):
    lines = f"pools:\n  - type: g4dn.xlarge\n    answers: {json.dumps([answer] * 3)}\n"
    ended = run(place, *scenario(place, lines))
    assert ended.code == code, ended.err
    assert words in ended.err + ended.out
    status = json.loads(srifty("status", "r1", "--json").out)
    refused = [line for line in status["bill"] if line["billed_s"] == 0]
    assert refused
    assert all(line["usd_total"] == 0 for line in refused)


def prices(path: Path, **usd: float) -> Path:
    header = "cloud,instance_type,market,region,zone,usd_per_hour,date,source\n"
    date = "2026-07-20T12:00:00+00:00"
    rows = [
        f"aws,g4dn.xlarge,{market.replace('_', '-')},us-east-1,,{value},{date},mock\n"
        for market, value in usd.items()
    ]
    path.write_text(header + "".join(rows), encoding="utf-8")
    return path


# C03: quoted at 0.28, live 0.49, on demand 0.44.
def test_prices_are_checked_again_before_launch(place):
    text = JOB.replace(
        "  quota: {g4dn.xlarge: {spot: 2}, g4dn.2xlarge: {spot: 1, on-demand: 1}}\n",
        "  quota: {g4dn.xlarge: 1}\n",
    )
    text = text[: text.index("  prices:")] + (
        "  prices: {g4dn.xlarge: {spot: 0.28, on-demand: 0.44}}\n"
    )
    write_job(place, text, PROFILE)
    live = prices(place / "live.csv", spot=0.49, on_demand=0.44)
    ended = run(place, "--live-prices", str(live))
    assert ended.code == 0, ended.err
    assert "$0.28 per hour in the catalog, $0.49 per hour now" in ended.err
    assert "1 x g4dn.xlarge (on-demand" in ended.err
    broken = srifty(
        "run", *("--yes", "--name", "r2", "--live-prices", live), "--set", "budget_usd=0.006",
        place / "job.yaml", "--", WORKER, "30", "5",
    )  # fmt: skip
    assert broken.code == 3
    assert not (place / "runs" / "r2").exists()


def test_an_unknown_run_is_named(place):
    ended = srifty("status", "nobody")
    assert ended.code == 2
    assert "there are none" in ended.err


def test_a_changed_job_file_is_not_gone_on_with(place):
    assert run(place).code == 0
    with Ledger.read(find_run("r1").ledger) as ledger:
        record = ledger.run()
    _, job = reopened_job(record)
    assert job.limits.budget_usd == 5
    write_job(place, JOB.replace("iterations: 30", "iterations: 31"), PROFILE)
    with pytest.raises(InputError, match="not what it was"):
        reopened_job(record)


def test_workers_can_be_forked_from_a_loaded_interpreter(place):
    ended = run(place, "--launcher", "preloaded")
    assert ended.code == 0, ended.err
    with Ledger.read(find_run("r1").ledger) as ledger:
        assert ledger.run().document["command"] == [str(WORKER), "30", "5"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("job.yaml", "--yes", "--", "w.py"), "options come before"),
        (("--yes", "job.yaml", "--", "nowhere.py"), "no such script"),
        (("--yes", "--name", "a/../b", "job.yaml", "--", "w.py"), "cannot name a run"),
    ],
)
def test_slips_of_the_command_line_cost_nothing(place, monkeypatch, words, said):
    monkeypatch.chdir(place)
    ended = srifty("run", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not (place / "runs").exists()


def test_a_controller_that_fails_says_what_becomes_of_the_vms(place, monkeypatch):
    def fail(self: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("srifty.control.controller.Controller.look", fail)
    ended = run(place)
    assert ended.code == 1
    assert "srifty stop r1" in ended.err
    assert "srifty resume r1" in srifty("status", "r1").out
    assert srifty("stop", "r1").code == 0


def test_workers_that_fail_are_quoted(place):
    ended = srifty("run", *OPTIONS, place / "job.yaml", "--", "-c", "raise ValueError('so it is')")
    assert ended.code == 4
    assert "failed with code 1: ValueError: so it is" in ended.err
    assert "ValueError: so it is" in json.loads(srifty("status", "r1", "--json").out)["message"]
