from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from srifty.files.profile_file import read_profile
from tests.command import profile_document, srifty, write_job

torch = pytest.importorskip("torch")

MODULE = """
import os
import signal
import time

import torch
from srifty.profiling.workload import Workload

def make():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    return Workload("toy", model, lambda m, x: m(x).square().mean(), lambda b: torch.randn(b, 4))

def broken():
    raise ValueError("no data here")

def stopped():
    workload = make()
    loss, calls = workload.loss, []
    def stop_later(model, x):
        calls.append(1)
        if len(calls) > 60:
            raise KeyboardInterrupt
        return loss(model, x)
    workload.loss = stop_later
    return workload

def terminated():
    workload = make()
    loss, calls = workload.loss, []
    def stop_later(model, x):
        calls.append(1)
        if len(calls) > 60:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(model, x)
    workload.loss = stop_later
    return workload

def fed():
    workload = make()
    def loader(workers):
        for _ in range(10):
            time.sleep(0.1)
            yield torch.randn(1, 4)
    workload.loader = loader
    return workload

def slow_trial():
    workload = make()
    def tell(model, x):
        with open("trial.pid", "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(600)
    workload.loss = tell
    return workload
"""
QUICK = ("--max-batch", "4", "--seconds", "60", "--precision-percent", "50", "--device", "cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "their_model.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("their_model", None)


def test_a_profile_is_written_and_a_plan_made_with_it(folder):
    outcome = srifty("profile", "their_model:make", *QUICK, "--gpu", "lab", "-o", "toy.json")
    assert outcome.code == 0, outcome.err
    assert "toy on lab, fp32" in outcome.out
    assert "written to toy.json" in outcome.err
    profile = read_profile(folder / "toy.json")
    assert (profile.gpu, profile.max_batch) == ("lab", 4)
    text = (folder / "toy.json").read_text().replace('"lab"', '"T4"')  # as if measured there
    planned = srifty("plan", write_job(folder, profile=text), "--set", "global_batch=8")
    assert planned.code == 0, planned.err
    assert "g4dn.xlarge" in planned.out
    assert not list(folder.glob("*.journal"))


def test_the_rate_of_a_slow_loader_makes_a_plan_input_bound(folder):
    arguments = ("--max-batch", "2", "--seconds", "1", "--device", "cpu", "-o", "p.json")
    outcome = srifty("profile", "their_model:fed", *arguments)
    assert outcome.code == 0, outcome.err
    rate = read_profile(folder / "p.json").input_samples_per_s_per_vcpu
    assert 0 < rate <= 10
    # A T4 that takes 100 samples/s; 4 vCPUs deliver 40 at most.
    job = write_job(folder, profile=profile_document(input_samples_per_s_per_vcpu=rate))
    planned = srifty("plan", job)
    assert planned.code == 0, planned.err
    assert "input-bound" in planned.out


def test_json_is_the_profile_and_nothing_else(folder):
    outcome = srifty("profile", "their_model:make", *QUICK, "--batch-sizes", "2,4", "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["format"] == "srifty-profile/1"
    assert [latency["batch"] for latency in document["latencies"]] == [2, 4]
    assert "--estimate-for T4 estimates GPUs" in outcome.err
    (folder / "p.json").write_text(outcome.out)
    assert read_profile(folder / "p.json").workload == "toy"


def test_ctrl_c_keeps_what_was_measured_and_the_next_run_goes_on(folder):
    outcome = srifty("profile", "their_model:stopped", *QUICK, "-o", "toy.json")
    assert outcome.code == 130
    assert "run again to go on" in outcome.err
    journal = folder / "toy.json.journal"
    known = len(journal.read_text().splitlines())
    assert known > 2
    outcome = srifty("profile", "their_model:make", *QUICK, "-o", "toy.json")
    assert outcome.code == 0, outcome.err
    assert "Going on from toy.json.journal" in outcome.err
    assert not journal.exists()
    assert any("interrupted" in note for note in read_profile(folder / "toy.json").notes)


def test_sigterm_ends_as_ctrl_c_does(folder):
    before = signal.getsignal(signal.SIGTERM)
    outcome = srifty("profile", "their_model:terminated", *QUICK, "-o", "toy.json")
    assert outcome.code == 143
    assert "stopped by SIGTERM; what was measured is kept, run again to go on" in outcome.err
    assert (folder / "toy.json.journal").exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_leaves_no_trial_running(folder):
    path = os.pathsep.join(part for part in sys.path if part)
    done = subprocess.run(
        [sys.executable, "-m", "srifty", "profile", "their_model:slow_trial", *QUICK, "--isolate"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr == "error: stopped by SIGTERM.\n"
    trial = Path(f"/proc/{(folder / 'trial.pid').read_text()}/cmdline")
    assert not trial.exists() or not trial.read_bytes()


def test_no_resume_begins_anew(folder):
    (folder / "toy.json.journal").write_text("rubbish\n")
    assert srifty("profile", "their_model:make", *QUICK, "-o", "toy.json").code == 2
    outcome = srifty("profile", "their_model:make", *QUICK, "-o", "toy.json", "--no-resume")
    assert outcome.code == 0, outcome.err


def test_an_error_of_the_factory_is_theirs(folder):
    outcome = srifty("profile", "their_model:broken", *QUICK)
    assert outcome.code == 2
    assert "ValueError: no data here" in outcome.err
    assert f"{folder / 'their_model.py'}:" in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("their_model",), "MODULE:FACTORY"),
        (("their_model:make", "--batch-sizes", "2;4"), "between commas"),
        (("their_model:make", "--batch-sizes", "8"), "8: above --max-batch (4)"),
        (("their_model:make", "--batch-sizes", "2,4,2"), "2 is named twice"),
        (("their_model:make", "--batch-sizes", "2,2.5"), "between commas"),
        (("their_model:absent",), "its functions are make, broken, stopped"),
        (("their_model:make", "--device", "abacus"), "no device"),
        (("their_model:make", "-o", "nowhere/p.json"), "no such folder"),
        (("their_model:make", "-o", "."), "is a folder"),
    ],
)
def test_what_is_wrong_is_said(arguments, words):
    outcome = srifty("profile", *arguments, *QUICK[:4])
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.out == ""


def test_a_cpu_never_poses_as_a_gpu_of_the_catalog(folder):
    outcome = srifty("profile", "their_model:make", *QUICK, "--gpu", "T4", "-o", "toy.json")
    assert outcome.code == 2
    assert "would pose as a T4; --estimate-for T4" in outcome.err
    assert not (folder / "toy.json").exists()
