import os
import signal
import subprocess
import sys
import time

import pytest
from benchmarks.testbed import state
from benchmarks.testbed.bed import Bed
from benchmarks.testbed.procfs import ProcessId, process_id
from benchmarks.testbed.spec import Host, Network
from benchmarks.testbed.sweep import Swept, inside, kill, sweep_leftovers

from tests.testbed.standing import needs_bed

ALONE = Network((Host("a", 100),))


def start_driver(delay_ms: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.testbed.driver", str(delay_ms)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_only_the_process_that_was_meant_is_killed():
    with subprocess.Popen(["sleep", "600"]) as child:
        found = process_id(child.pid)
        assert kill([ProcessId(found.pid, found.started_ticks - 1)]) == 0
        assert found.alive
        assert kill([found, found]) >= 1
        assert child.wait() == -signal.SIGKILL
    assert kill([found]) == 0


def test_what_was_swept_is_told():
    assert str(Swept()) == "Nothing was left by earlier runs."
    assert str(Swept(("x",), 3, 2)) == (
        "Removed what 1 earlier run(s) had left: 3 network namespaces with their devices, "
        "2 processes."
    )


@needs_bed
@pytest.mark.parametrize("delay_ms", [0.0, 1.0])
def test_a_killed_run_is_removed_and_a_living_one_stays(delay_ms):
    with Bed(ALONE) as living, start_driver(delay_ms) as driver:
        bed, daemon = driver.stdout.readline().split()
        left = process_id(int(daemon))
        assert state.namespaces(bed) == [f"{bed}-0", f"{bed}-1", f"{bed}-net"]
        assert left in inside([f"{bed}-0"])
        driver.kill()
        driver.wait()
        assert left.alive
        swept = sweep_leftovers()
        assert bed in swept.beds
        assert not left.alive
        assert state.namespaces(bed) == []
        assert bed not in [record.bed for record in state.records()]
        assert living.popen("a", ["true"]).wait() == 0


@needs_bed
def test_the_next_bed_removes_what_a_killed_run_left():
    with start_driver(1.0) as driver:
        bed, _daemon = driver.stdout.readline().split()
        driver.kill()
    with Bed(ALONE):
        assert state.namespaces(bed) == []


@needs_bed
@pytest.mark.parametrize("after_s", [0.15, 0.25, 0.35])
def test_killed_at_any_moment_of_its_start(after_s):
    before = set(state.namespaces())
    with start_driver(1.0) as driver:
        time.sleep(after_s)
        driver.kill()
        driver.wait()
        mine = [r.bed for r in state.records() if r.driver.pid == driver.pid]
        sweep_leftovers()
        sweep_leftovers()  # a command that outlived its driver has ended by now
    assert driver.returncode == -signal.SIGKILL
    assert not [name for bed in mine for name in state.namespaces(bed)]
    assert {name for name in state.namespaces() if name not in before} <= living_namespaces()


def living_namespaces() -> set[str]:
    """Namespaces of beds of others who run at the same time."""
    return {
        name
        for record in state.records()
        if record.driver.alive
        for name in state.namespaces(record.bed)
    }


@needs_bed
def test_a_namespace_without_a_record_is_removed():
    name = f"{state.PREFIX}orphan"
    subprocess.run(["ip", "netns", "add", name], check=True)
    assert name in sweep_leftovers().beds
    assert not (state.NAMESPACES / name).exists()


@needs_bed
def test_a_record_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(state, "STATE", tmp_path)
    (tmp_path / f"{state.PREFIX}x.json").write_text("{")
    with pytest.raises(ValueError, match=r"sriftybed-x\.json cannot be read .*remove the file"):
        state.records()


def test_a_record_is_read_as_it_was_written(monkeypatch, tmp_path):
    monkeypatch.setattr(state, "STATE", tmp_path)
    record = state.new_record()
    record.write()
    assert state.records() == [record]
    assert record.driver == process_id(os.getpid())
