"""The recipe for Hugging Face's Trainer: unequal workers end where one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")
for needed in ("transformers", "accelerate"):
    if not any((Path(at) / needed).is_dir() for at in sys.path):  # importing it takes seconds
        pytest.skip(f"{needed} is not installed", allow_module_level=True)

SCRIPT = Path(__file__).parent / "hugging_face.py"
LIMIT_S = 600  # only for what would hang for ever


def train(folder, shares, *arguments):
    workers = shares.count(",") + 1
    environment = os.environ | {
        "PYTHONPATH": str(Path(srifty.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "SRIFTY_SHARES": shares,
    }
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    done = subprocess.run(
        [sys.executable, *(launcher if workers > 1 else []), str(SCRIPT), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out.json").read_text())


def test_unequal_workers_end_where_one_process_does(tmp_path):
    folders = [tmp_path / name for name in ("alone", "unequal")]
    for folder in folders:
        folder.mkdir()
    alone = train(folders[0], "8", "12")
    early = train(folders[1], "5,3", "5")
    assert max(abs(a - b) for a, b in zip(alone, early, strict=True)) > 1e-2
    unequal = train(folders[1], "2,6", "12", "resume")
    assert unequal == pytest.approx(alone, abs=2e-5)
