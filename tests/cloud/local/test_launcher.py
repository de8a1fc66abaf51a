from __future__ import annotations

import os
import signal

import pytest

from srifty.cloud.local import launcher
from srifty.cloud.local.launcher import LOOPBACK, Launcher, LocalWorkers, VmPlace
from srifty.cloud.local.processes import VM_TAG, stopped, tagged
from tests.cloud.contract import until

# A child of its own, as loaders are.
_CHILD = "import time; time.sleep(600)"
SLEEPER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{_CHILD}'], check=True)"


@pytest.fixture
def workers(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_STOPPED_S", 0.3)
    tag = str(tmp_path)
    made = LocalWorkers(
        ("-c", SLEEPER),
        VmPlace(1, 0, 1, 0, 1, 1, LOOPBACK, 0),
        Launcher.PLAIN,
        environment={VM_TAG: tag},
        workdir=tmp_path,
        log=tmp_path / "log",
        tag=tag,
    )
    yield made
    made.kill()


def test_a_worker_that_is_stopped_from_outside_has_failed(workers, tmp_path):
    own = str(tmp_path)
    until(lambda: len(tagged(own)) == 2)
    assert workers.poll() is None
    loader = next(pid for pid in tagged(own) if pid not in [c.pid for c in workers._children])
    os.kill(loader, signal.SIGSTOP)
    until(lambda: workers.poll() is not None)
    assert workers.exit_code == -signal.SIGSTOP
    assert f"process {loader} was stopped" in (tmp_path / "log").read_text()
    until(lambda: not tagged(own))


def test_a_vm_that_is_slowed_by_its_agent_has_not_failed(workers, tmp_path):
    until(lambda: len(tagged(str(tmp_path))) == 2)
    workers.hold(stopped=True)
    held = [0]

    def has_looked_often() -> bool:
        held[0] += 1
        workers.hold(stopped=True)
        assert workers.poll() is None
        return held[0] > 20

    until(has_looked_often)
    assert stopped(tagged(str(tmp_path)))
