"""Trials in processes of their own; each imports torch, so there are few."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is an extra")

from srifty.profiling import isolated
from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.outcome import Verdict
from srifty.profiling.trial import TrialSettings

SETTINGS = TrialSettings(warm_up=1, steps=2)


def tried(factory, batch=4, **keys):
    return IsolatedTrials(f"tests.profiling.toys:{factory}", "cpu", SETTINGS, **keys)(batch)


def lives(process: int) -> bool:
    """Whether it is neither gone nor a zombie."""
    command = Path(f"/proc/{process}/cmdline")
    return command.exists() and bool(command.read_bytes())


def test_the_outcome_comes_back_whatever_the_code_prints_and_leaves_behind(tmp_path, monkeypatch):
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("PID_FILE", str(pid_file))
    outcome = tried("talkative")
    left_behind = int(pid_file.read_text())
    assert lives(left_behind)  # with the pipe open: its end was not waited for
    os.kill(left_behind, signal.SIGKILL)
    assert outcome.verdict is Verdict.FITS, outcome.message
    assert (outcome.batch, outcome.steps) == (4, SETTINGS.total_steps)
    assert outcome.peak_bytes > 0
    assert outcome.host_peak_bytes > 0


def test_a_killed_process_ran_out_of_the_hosts_memory():
    outcome = tried("killed")
    assert outcome.verdict is Verdict.OUT_OF_HOST_MEMORY
    assert "killed, as the system does when memory runs out" in outcome.message


def test_a_process_that_dies_otherwise_is_another_error_with_its_last_words():
    outcome = tried("leaving")
    assert outcome.verdict is Verdict.OTHER_ERROR
    assert "exit code 7" in outcome.message
    assert "the last words" in outcome.message


def test_a_process_that_never_ends_is_ended():
    trials = IsolatedTrials(
        "tests.profiling.toys:hanging", "cpu", TrialSettings(seconds=0.5), start_up_s=0.5
    )
    outcome = trials(4)
    assert outcome.verdict is Verdict.TOO_SLOW
    assert "did not end within 1 s" in outcome.message


def test_a_factory_that_fails_is_told():
    request = {"factory": "tests.profiling.toys:absent", "device": "cpu", "batch": 4}
    outcome = isolated._tried(request)
    assert outcome.verdict is Verdict.OTHER_ERROR
    assert "has no 'absent'" in outcome.message


def test_an_interrupt_ends_the_process_too(monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def wait(self, timeout=None):
            started.append(self)
            if timeout is not None:
                raise KeyboardInterrupt
            return super().wait()

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        tried("hanging")
    assert started[0].returncode == -signal.SIGKILL


PARENT = """
from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.trial import TrialSettings
IsolatedTrials("tests.profiling.toys:hanging", "cpu", TrialSettings())(4)
"""


def test_the_process_ends_with_a_parent_that_was_killed(tmp_path):
    pid_file = tmp_path / "pid"
    environment = {**os.environ, "PID_FILE": str(pid_file)}
    environment["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environment)
    try:
        wait_until(lambda: pid_file.exists() and pid_file.read_text())
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not lives(int(pid_file.read_text())))


def wait_until(is_so):
    for _ in range(1200):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to be")
