import os
import subprocess
import sys
from pathlib import Path

import pytest

import srifty
from tests.training.conftest import LIMIT_S, ROOT

pytest.importorskip("torch", reason="torch is an extra")

from srifty.training.lost_worker import explain_lost_workers, tells_of_a_lost_worker

CLOSED = RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CLOSED, True),
        (RuntimeError("NCCL error in: ProcessGroupNCCL.cpp, remote process exited"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("Connection closed by peer"), False),
    ],
)
def test_what_tells_of_a_lost_worker(error, expected):
    assert tells_of_a_lost_worker(error) == expected


def test_a_line_comes_before_the_traceback(monkeypatch, caplog):
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: shown.append(error[1]))
    before = sys.excepthook
    undo = explain_lost_workers(lambda: "from the newest checkpoint of step 12 in runs/a")
    for error in (ValueError("else"), CLOSED):
        sys.excepthook(type(error), error, None)
    undo()
    assert [str(error) for error in shown] == ["else", str(CLOSED)]
    assert caplog.text.count("another worker was lost") == 1
    assert "go on from the newest checkpoint of step 12 in runs/a" in caplog.text
    assert sys.excepthook is before


def test_the_others_of_a_lost_worker_say_where_to_go_on(tmp_path):
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "tests.training.lost", str(tmp_path)],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "SRIFTY_SHARES": "5,3",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode != 0
    said = f"another worker was lost (its own output says why, if it could); start all workers \
again to go on from the newest checkpoint of step 2 in {tmp_path}"
    assert done.stderr.count(said) == 1
