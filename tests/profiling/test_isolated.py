"""Trials in processes of their own; each imports torch, so there are few."""

import pytest

pytest.importorskip("torch", reason="torch is an extra")

from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.outcome import Verdict
from srifty.profiling.trial import TrialSettings

SETTINGS = TrialSettings(warm_up=1, steps=2)


def tried(factory, batch=4, **keys):
    return IsolatedTrials(f"tests.profiling.toys:{factory}", "cpu", SETTINGS, **keys)(batch)


def test_the_outcome_comes_back_whatever_the_code_prints_and_leaves_behind():
    outcome = tried("talkative")
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
    outcome = tried("absent")
    assert outcome.verdict is Verdict.OTHER_ERROR
    assert "has no 'absent'" in outcome.message
