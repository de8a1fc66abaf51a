"""The agent without Ray, which only carries its calls."""

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from srifty.cloud.local.processes import tagged
from srifty.cloud.ray_backend.agent import AgentSetup, Orders, Report, VmAgent

pytest.importorskip("torch", reason="torchrun is not installed (extra train)")
SETUP = AgentSetup("vm-1", "a-tag", "", ".", hard_end_unix_s=1e12, silence_s=1e6)


def until(found):
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < 90, "it never came"
        time.sleep(0.05)


@pytest.fixture
def make(tmp_path):
    made = []

    def agent(**changes):
        setup = replace(SETUP, folder=str(tmp_path / "vm"), tag=str(tmp_path), **changes)
        made.append(VmAgent(asdict(setup)))
        return made[-1]

    yield agent
    for each in made:
        each.end("the test is over")


def report(agent):
    return Report(**agent.report())


def orders(script: Path, generation=1):
    return asdict(
        Orders(generation, 0, 1, 1, "127.0.0.1", 0, (str(script),), "4", "", {"WORD": "hush"})
    )


def test_a_vm_ends_itself_at_its_hard_end(make):
    agent = make(hard_end_unix_s=0.0)
    until(lambda: report(agent).ended)
    assert report(agent).ended == "by itself, at the run's hard end"


def test_a_vm_ends_itself_and_its_workers_when_nobody_asks(make, tmp_path):
    script = tmp_path / "sleep.py"
    script.write_text("import time\ntime.sleep(600)\n")
    agent = make(silence_s=1e6)
    agent.start(orders(script))
    until(lambda: len(tagged(str(tmp_path))) >= 2)
    agent._setup = replace(agent._setup, silence_s=0.0)
    until(lambda: agent._ended)
    assert "was not heard of" in agent._ended
    assert tagged(str(tmp_path)) == []


def test_workers_die_with_the_torchrun_that_started_them(make, tmp_path):
    script = tmp_path / "sleep.py"
    script.write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('up').touch()\ntime.sleep(600)\n"
    )
    agent = make()
    agent.start(orders(script))
    until((tmp_path / "up").exists)
    agent._process.kill()  # as Ray does when an agent ends
    until(lambda: tagged(str(tmp_path)) == [])
    until(lambda: report(agent).exit_code not in (0, None))


def test_what_an_earlier_run_of_the_name_left_is_not_taken_for_this_ones(make, tmp_path):
    (tmp_path / "vm" / "progress-000001").mkdir(parents=True)
    (tmp_path / "vm" / "progress-000001" / "worker-00000.jsonl").write_text("{}\n")
    assert make().read_more({}) == {}


def test_what_ends_the_vm_is_called_once(make, tmp_path):
    mark = tmp_path / "ended"
    code = f"open({str(mark)!r}, 'a').write('x')"
    agent = make(end_command=(sys.executable, "-c", code), signs=str(tmp_path))
    report(agent)
    assert (tmp_path / "heard").exists()
    assert not (tmp_path / "end").exists()
    agent.end("as the run asked")
    agent.end("again")
    assert (tmp_path / "end").exists()
    until(mark.exists)
    until(lambda: mark.read_text() == "x")
    until(lambda: agent._ending.returncode == 0)
    assert report(agent).ended == "as the run asked"


def test_secrets_are_in_no_repr():
    assert "hush" not in repr(Orders(1, 0, 1, 1, "", 0, (), "4", "", {"WORD": "hush"}))
