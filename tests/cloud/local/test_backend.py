from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher, LocalBackend
from srifty.cloud.local.processes import tagged
from srifty.cloud.local.run_folder import RunFolder, read_json
from srifty.cloud.locks import holder
from srifty.core.scenario import PoolScript, Scenario
from tests.cloud.contract import (
    BackendContract,
    request,
)


class Cloud:
    """Makes back ends in one folder, and leaves nothing of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"

    def backend(self, *scripts: PoolScript, factor: float = 1.0, clock=None) -> LocalBackend:
        return LocalBackend(
            self.folder,
            clock or Clock.start(factor),
            Scenario(scripts),
            launcher=Launcher.PLAIN,
        )

    def agent(self, vm: str) -> int | None:
        return holder(RunFolder(self.folder).vm(vm).lock)

    def processes(self, vm: str) -> list[int]:
        asked = read_json(RunFolder(self.folder.resolve()).vm(vm).request)
        return tagged(asked["tag"])

    def close(self) -> None:
        for files in RunFolder(self.folder.resolve()).all_vms():
            for pid in self.processes(files.path.name):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    yield made
    made.close()


def launch(backend: LocalBackend, *names: str, **changes) -> None:
    backend.launch(backend.prepare(request(*names, **changes)))


class TestContract(BackendContract):
    @pytest.fixture
    def backend(self, cloud):
        return cloud.backend()
