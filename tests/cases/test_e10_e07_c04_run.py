"""E10, E07, C04, C07 in a run: launches in part, a notice, what is billed, and why not to begin."""

import json
import re

import pytest

from tests.command import srifty

from .jobs import profile, write_case
from .runs import own_runs, run, status

SAMPLE_S = 0.01


@pytest.fixture(name="place")
def _place(tmp_path, monkeypatch):
    with own_runs(tmp_path, monkeypatch):
        yield tmp_path


def job(place, iterations=20, vms=8, **keys):
    """A job that is the faster, the more of the eight VMs it has."""
    offers = {
        "markets": ["on-demand"],
        "quota": {"g4dn.xlarge": vms},
        "prices": {"g4dn.xlarge": {"on-demand": 0.526}},
    }
    usual = {"budget_usd": 5, "confidence": 0.5, "minimize": "time", "batches": "any"}
    overheads = {"launch": "150s", "restore": "1s"}
    return write_case(
        place, offers, profile(sample_s=SAMPLE_S), iterations=iterations,
        **(usual | {"overheads": overheads} | keys),
    )  # fmt: skip


def launched_in_part(granted, code):
    answers = [None] * granted + [f"code={code} op=RunInstances note='limit 32 vCPU'"] * 9
    pool = {"type": "g4dn.xlarge", "boot": "150s", "answers": answers}
    return {"clock_factor": 60, "pools": [pool]}


def test_e10_six_of_eight_are_gone_on_with_and_the_refused_cost_nothing(place):
    ended = run(job(place), scenario=launched_in_part(6, "InsufficientInstanceCapacity"), steps=20)
    assert ended.code == 0, ended.err
    assert "asks for 8 x g4dn.xlarge" in ended.err
    document = status()
    assert "8g4dn.xlarge" not in document["worlds"][-1]["config"]
    usd = [line["usd_total"] for line in document["bill"]]
    assert usd.count(0.0) >= 2
    assert all(paid > 0 for paid in usd[:6])


def test_c04_five_of_eight_are_billed_from_running_to_stop(place):
    ended = run(job(place), scenario=launched_in_part(5, "VcpuLimitExceeded"), steps=20)
    assert ended.code == 0, ended.err
    assert "limit 32 vCPU" in ended.err  # the number of the quota that binds is told
    document = status()
    ran, stopped = {}, {}
    for event in document["events"]:
        if event["kind"] == "launched":
            ran[event["vm"]] = event["at_s"]
        elif event["kind"] == "terminated":
            stopped[event["vm"]] = event["at_s"]
    assert len(ran) == 5
    assert all(at_s >= 150 for at_s in ran.values())
    for line in document["bill"]:
        billed_s = 0.0
        if line["name"] in ran:
            billed_s = max(stopped[line["name"]] - ran[line["name"]], 60.0)
        assert line["billed_s"] == pytest.approx(billed_s, abs=1.0)
        assert line["usd_total"] == pytest.approx(0.526 * line["billed_s"] / 3600)
    assert document["spent_usd_total"] == pytest.approx(
        sum(line["usd_total"] for line in document["bill"])
    )
    assert document["usd_per_hour"] == 0.0  # nothing is charged once all have stopped
    for text in (srifty("report", "r1").out, srifty("status", "r1").out, ended.err):
        for line in text.splitlines():
            if re.search(r"\$\d", line) and "billed" not in text:
                assert re.search("per hour|in total", line), line


def test_e07_what_was_made_is_saved_within_the_notice_and_gone_on_with(place):
    taken = {"nth": 1, "act": "preempt", "at_iteration": 15, "notice": "2m"}
    played = {"clock_factor": 10, "pools": [{"type": "g4dn.xlarge", "vms": [taken]}]}
    path = job(place, iterations=60, vms=1, minimize="cost", overheads={"launch": "1s"})
    ended = run(path, scenario=played, steps=60, every=1000)  # nothing is saved but on demand
    assert ended.code == 0, ended.err
    document = status()
    kinds = {event["kind"]: event["at_s"] for event in document["events"]}
    assert "notice" in kinds
    first, second = document["worlds"][:2]
    assert first["from_iteration"] == 0
    assert second["from_iteration"] >= 15
    assert "are made again" not in ended.err


def test_c07_a_run_that_cannot_be_planned_says_why_and_what_would_do(place):
    path = job(place, iterations=10_000, deadline="2m")
    ended = run(path, "--json")
    assert ended.code == 3
    document = json.loads(ended.out)
    assert document["plan"] is None
    reasons = [reason for reason in document["reasons"] if reason["kind"] == "deadline"]
    assert any("launching alone takes 2 min 30 s" in reason["message"] for reason in reasons)
    assert any((reason["nearest"] or 0.0) > 150 for reason in reasons)
    assert not (place / "runs").exists()
