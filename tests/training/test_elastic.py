"""Training that is stopped, killed, and gone on with on other workers, against undisturbed."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")

from tests.training.conftest import LIMIT_S, ROOT
from tests.training.elastic import BATCH, LAST, LENGTH, STEPS


def train(folder, shares, **variables):
    """What worker 0 returned; None where a worker was lost."""
    out = folder / "out.json"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "SRIFTY_SHARES": shares,
        "ELASTIC": str(folder),
        **{f"ELASTIC_{name.upper()}": str(value) for name, value in variables.items()},
    }
    workers = str(shares.count(",") + 1)
    command = [sys.executable, "-m", "tests.training.group", "tests.training.elastic", workers]
    done = subprocess.run(
        [*command, str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if "kill" in variables:
        assert done.returncode == 1
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()) | {"stderr": done.stderr}


def samples(folder):
    """Samples of each step; of a step that was made twice, those of both times."""
    found = collections.defaultdict(list)
    for path in folder.glob("seen-*.jsonl"):
        for line in path.read_text().splitlines():
            step, indexes = json.loads(line)
            found[step] += indexes
    return {step: sorted(found[step]) for step in sorted(found)}


def losses(folder):
    lines = (folder / "progress" / "worker-00000.jsonl").read_text().splitlines()
    steps = [line for line in map(json.loads, lines) if "step" in line]
    assert all(line["seconds"] > 0 for line in steps)
    return {line["step"]: line["loss"] for line in steps if line["loss"] is not None}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, train(folder, f"{BATCH}")


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disturbed")
    return folder, [
        train(folder, "12/3", stop=4),
        train(folder, "5,4/2,2,1", stop=10),
        train(folder, "6/2,3,3", kill=18),
        train(folder, "4,3,2,2/2,1"),
    ]


def test_all_stop_after_the_same_step_and_others_go_on_there(disturbed):
    _, (alone, four, _, five) = disturbed
    assert (alone["first"], alone["finished"]) == (0, False)
    assert alone["last"] in (5, 6)  # asked for after step 4
    assert four["first"] == alone["last"] + 1
    assert four["last"] in (11, 12)
    assert (five["first"], five["last"]) == (16, STEPS - 1)  # killed in 18, saved every 4
    assert five["finished"]
    assert "3 steps that were made are lost" in five["stderr"] or "2 steps" in five["stderr"]


def test_each_step_has_the_undisturbed_samples(undisturbed, disturbed):
    once, found = samples(undisturbed[0]), samples(disturbed[0])
    assert list(once) == list(found) == list(range(STEPS))
    for step in range(STEPS):
        assert len(once[step]) == (LAST if step % 9 == 8 else BATCH)
        # Steps 16 and 17 were made, lost, and made again; 18 was cut short, and 19 maybe begun.
        times = 2 if step in (16, 17) else 1
        if step not in (18, 19):
            assert found[step] == sorted(once[step] * times), step
        assert set(found[step]) == set(once[step]), step
    assert sorted(sample for step in range(9) for sample in once[step]) == list(range(LENGTH))


def test_loss_curve_and_parameters_are_the_undisturbed(undisturbed, disturbed):
    once, found = losses(undisturbed[0]), losses(disturbed[0])
    assert list(once) == list(range(STEPS))
    assert set(found) == set(once)
    for step, loss in once.items():
        assert found[step] == pytest.approx(loss, rel=1e-11)
    assert disturbed[1][-1]["parameters"] == pytest.approx(undisturbed[1]["parameters"], rel=1e-10)


def test_learning_makes_a_difference(undisturbed):
    curve = losses(undisturbed[0])
    assert sum(list(curve.values())[-9:]) < 0.9 * sum(list(curve.values())[:9])


def test_each_worker_logs_its_own_samples(disturbed):
    folder, _ = disturbed
    own = collections.Counter()
    for path in (folder / "progress").glob("worker-*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            if line.get("step", 0) > 20:
                own[line["step"]] += line["samples"]
                assert line["global_samples"] == (LAST if line["step"] % 9 == 8 else BATCH)
    assert own == {step: (LAST if step % 9 == 8 else BATCH) for step in range(21, STEPS)}
