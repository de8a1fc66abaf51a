import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")

import json

from srifty.errors import InputError
from srifty.training import Checkpoints, checkpoint
from srifty.training.folder import LocalFolder
from srifty.training.sharded import _Reader
from tests.training.conftest import LIMIT_S, ROOT


def train(folder, workers):
    out = folder / f"out-{workers}.json"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "SHARDING": str(folder / "saved"),
    }
    command = [sys.executable, "-m", "tests.training.group", "tests.training.sharding"]
    done = subprocess.run(
        [*command, str(workers), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_a_sharded_state_goes_on_on_other_workers(tmp_path):
    two, three = train(tmp_path, 2), train(tmp_path, 3)
    assert (two["step"], three["step"]) == (-1, 3)
    assert three["parameters"] == pytest.approx(two["parameters"], abs=1e-6)
    folder = LocalFolder(tmp_path / "saved")
    found = checkpoint.check(folder, 3)
    assert ".metadata" in found.files
    assert sum(name.endswith(".distcp") for name in found.files) >= 2
    part = next(name for name in found.files if name.endswith(".distcp"))
    path = tmp_path / "saved" / found.entry / part
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert checkpoint.newest(folder) is None


class Evil:
    def __reduce__(self):
        return (print, ("run",))


@pytest.mark.parametrize("evil", [Evil(), os.system, "no index"])
def test_an_index_runs_nothing(tmp_path, capsys, evil):
    (tmp_path / ".metadata").write_bytes(pickle.dumps(evil))
    with pytest.raises(InputError, match="no index of a checkpoint"):
        _Reader(tmp_path).read_metadata()
    assert capsys.readouterr().out == ""


def test_a_sharded_state_is_no_whole_one(tmp_path):
    folder = LocalFolder(tmp_path)
    checkpoint.write(folder, 1, {}, {".metadata": lambda file: file.write(b"x")})
    saves = Checkpoints(tmp_path, {})
    with pytest.raises(InputError, match="saved from a sharded model"):
        saves.load(saves.newest())
