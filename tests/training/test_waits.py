"""What a worker waits for in the exchange stands in its log, apart from its own time."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")

from srifty.training.progress import log_path
from srifty.training.waits import Waits
from tests.training.conftest import LIMIT_S, ROOT
from tests.training.waiting import SLEEP_S, SLOW


class Timers:
    """A DistributedDataParallel's timers, in nanoseconds."""

    def __init__(self, **said):
        self.said = said
        self.every = None

    def _set_ddp_runtime_logging_sample_rate(self, every):
        self.every = every

    def _get_ddp_logging_data(self):
        return self.said


def test_only_what_computation_does_not_hide_counts():
    timers = Timers(backward_comm_time=5_000_000, backward_compute_comm_overlap_time=2_000_000)
    waits = Waits.of(timers)
    assert waits.after(3) == pytest.approx(0.003)


def test_early_steps_and_those_between_measurements_say_nothing():
    timers = Timers(backward_comm_time=5, backward_compute_comm_overlap_time=0)
    waits = Waits.of(timers)
    measured = [made for made in range(32) if waits.after(made) is not None]
    assert measured == [*range(3, 11), 20, 30]
    assert timers.every == 10


def test_without_timers_nothing_is_said():
    assert Waits.of(object()) is None
    assert Waits.of(Timers()).after(5) is None


def test_the_slow_worker_waits_least(tmp_path):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "WAITING": str(tmp_path / "progress"),
    }
    command = [sys.executable, "-m", "tests.training.group", "tests.training.waiting", "2"]
    done = subprocess.run(
        [*command, str(tmp_path / "out.json")],
        env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    waited_s = {}
    for rank in (0, 1):
        lines = map(json.loads, log_path(tmp_path / "progress", rank).read_text().splitlines())
        said = [line["exchange_s"] for line in lines if line.get("exchange_s") is not None]
        assert len(said) == 9
        waited_s[rank] = statistics.median(said)
    assert waited_s[1 - SLOW] > 0.5 * SLEEP_S
    assert waited_s[SLOW] < waited_s[1 - SLOW]
