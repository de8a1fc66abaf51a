"""The documented script, alone and under torchrun."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import srifty
from tests.training.conftest import LIMIT_S, ROOT

pytest.importorskip("torch", reason="torch is an extra")

SCRIPT = "tests.training.script"


def run(*launcher, **variables):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", *launcher, SCRIPT],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_same_script_runs_alone_and_on_unequal_workers(tmp_path):
    groups = [
        {"count": 1, "local_batch": [5], "accumulation": 1},
        {"count": 1, "local_batch": [3], "accumulation": 1},
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"plan": {"groups": groups}}))
    alone = run()
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
    split = run(*torchrun, SRIFTY_PLAN=str(plan))
    assert alone["agrees"]
    assert split["agrees"]
    assert "(real processes) agrees" in split["proof"]
    for ours, theirs in zip(split["weights"], alone["weights"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)
