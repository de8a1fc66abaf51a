"""The runner of all experiments: what it runs, skips and says."""

import importlib.util
import sys
from pathlib import Path

import pytest
from benchmarks.paper.reproduce import STEPS, Step, chosen, lacking, reproduce, run_step, summary

FREE = Step("free", "needs nothing", "some.module", ("-o", "{out}/free.md"), page="free.md")
ROOT = Step("root", "needs root", "other.module", needs=("root",))


class Recorder:
    def __init__(self, code=0, seconds=0.0):
        self.commands, self.code, self.seconds, self.clock = [], code, seconds, 0.0

    def __call__(self, command, log, limit_s):
        self.commands.append(list(command))
        log.write_text("first\nlast words\n")
        self.clock += self.seconds
        return self.code

    def now(self):
        return self.clock


def test_a_step_gets_its_options_and_what_is_missing_is_said(tmp_path):
    run = Recorder()
    outcomes = reproduce([FREE, ROOT], tmp_path, {"root": "be root"}, minutes=None, run=run)
    assert [command[2:] for command in run.commands] == [
        ["some.module", "-o", f"{tmp_path.resolve()}/free.md"]
    ]
    assert [one.said for one in outcomes] == ["done", "skipped: be root"]
    said = summary(outcomes, tmp_path)
    assert "1 done, 1 skipped, 0 failed" in said
    assert str(tmp_path / "free.md") in said


def test_a_failure_is_told_with_its_last_words_and_the_rest_goes_on(tmp_path):
    outcomes = reproduce([FREE, FREE], tmp_path, {}, minutes=None, run=Recorder(code=3))
    assert [one.said for one in outcomes] == ["FAILED with 3: last words"] * 2
    assert not outcomes[0].ok
    assert "2 failed" in summary(outcomes, tmp_path)


def test_what_does_not_fit_into_the_time_is_skipped(tmp_path):
    run = Recorder(seconds=50.0)
    outcomes = reproduce([FREE, FREE, FREE], tmp_path, {}, minutes=2.0, run=run, now=run.now)
    assert [one.said.split()[0] for one in outcomes] == ["done", "done", "skipped:"]


def test_a_command_that_takes_too_long_is_told_to_stop(tmp_path):
    log = tmp_path / "log.txt"
    assert run_step([sys.executable, "-c", "import time; time.sleep(600)"], log, 1.0) == 124
    assert run_step([sys.executable, "-c", "print(1); raise SystemExit(4)"], log, None) == 4
    assert log.read_text() == "1\n"


def test_the_versions():
    short = [step.name for step in chosen(full=False, only=[])]
    long = [step.name for step in chosen(full=True, only=[])]
    assert len(set(names := [step.name for step in STEPS])) == len(names)
    assert {"variance", "table4", "trust", "table5", "cases", "figure8", "testbed"} <= set(short)
    assert {"variance", "allreduce-full", "testbed-full"} <= set(long)
    assert "testbed" not in long
    assert [step.name for step in chosen(full=False, only=["rivals"])] == ["rivals"]
    with pytest.raises(ValueError, match="no step is called nothing; there are variance"):
        chosen(full=False, only=["nothing"])


def test_every_step_is_a_module_and_needs_what_can_be_told():
    for step in STEPS:
        assert importlib.util.find_spec(step.module), step.module
        assert set(step.needs) <= {"data", "torch", "root"}


def test_no_data_is_said(tmp_path):
    assert "SRIFTY_PUBLIC_DATA" in lacking(tmp_path / "nowhere")["data"]
    assert "data" not in lacking(Path(tmp_path))
