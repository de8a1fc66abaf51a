"""Groups of real processes, each run once for all tests that look at it."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import srifty

LIMIT_S = 600  # only for what would hang for ever
ROOT = Path(__file__).parents[2]


@functools.cache
def group_results(module, world_size):
    """What rank 0 found in a group of so many workers."""
    pytest.importorskip("torch", reason="torch is an extra")
    source = Path(srifty.__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(source), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.group", module, str(world_size), str(out)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(out.read_text())


@pytest.fixture
def results():
    return group_results
