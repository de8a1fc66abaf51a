"""The training examples: what they change of plain scripts, and that they train."""

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 600  # only for what would hang for ever


def start(script, folder, workers, **variables):
    environment = os.environ | {
        "PYTHONPATH": str(Path(srifty.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
        "SRIFTY_PROGRESS": str(folder / "progress"),
        **variables,
    }
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    done = subprocess.run(
        [sys.executable, *(launcher if workers else []), str(EXAMPLES / script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("name", ["train_resnet", "finetune_masked"])
def test_few_lines_differ_from_a_plain_script(name):
    plain = (EXAMPLES / f"{name}_plain.py").read_text().splitlines()
    ours = (EXAMPLES / f"{name}.py").read_text().splitlines()
    changes = list(difflib.ndiff(plain, ours))
    assert 0 < sum(line.startswith("+ ") and line.strip() != "+" for line in changes) < 12
    assert 0 < sum(line.startswith("- ") and line.strip() != "-" for line in changes) < 12


@pytest.mark.parametrize(
    ("name", "shares", "steps"),
    [("train_resnet", "40,24", 20), ("finetune_masked", "11,20,17", 40)],
)
def test_they_learn_the_same_on_unequal_workers(tmp_path, name, shares, steps):
    curves = []
    for each in ("", shares):
        folder = tmp_path / f"with-{each}"
        folder.mkdir()
        done = start(
            f"{name}.py",
            folder,
            each.count(",") + 1 if each else 0,
            **({"SRIFTY_SHARES": each} if each else {}),
        )
        assert "Traceback" not in done.stderr
        text = (folder / "progress" / "worker-00000.jsonl").read_text()
        lines = [line for line in map(json.loads, text.splitlines()) if "step" in line]
        assert [line["step"] for line in lines] == list(range(steps))
        curves.append([line["loss"] for line in lines])
    alone, unequal = curves
    assert sum(alone[-5:]) < 0.8 * sum(alone[:5])
    # The models start from unseeded numbers, so only the scale can be compared.
    assert sum(unequal[-5:]) < 0.8 * sum(unequal[:5])
