"""Each two VMs of a world try an exchange; one that hangs is named by the others."""

import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import srifty

pytest.importorskip("torch", reason="torch is an extra")

from srifty.training.pair_sweep import SIZES_BYTES, rounds
from tests.training.conftest import LIMIT_S


@pytest.mark.parametrize("count", range(2, 9))
def test_each_meets_every_other_once(count):
    met = [pair for each in rounds(count) for pair in each]
    assert sorted(met) == list(itertools.combinations(range(count), 2))
    for each in rounds(count):
        busy = [rank for pair in each for rank in pair]
        assert len(set(busy)) == len(busy)


def test_of_many_each_meets_some():
    assert len(rounds(40)) == 7
    assert all(len(each) == 20 for each in rounds(40))


def sweep(folder, count, hangs=None):
    """Exit codes, and what each worker said of its pairs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "PYTHONPATH": str(Path(srifty.__file__).parents[1]),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count),
        "SRIFTY_PROGRESS": str(folder),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "srifty.training.pair_sweep"],
            env=environment | {"RANK": str(rank)},
            stderr=subprocess.DEVNULL,
        )
        for rank in range(count)
        if rank != hangs
    ]
    codes = [one.wait(LIMIT_S) for one in running]
    said = {}
    for path in folder.glob("worker-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line]
        said |= {(path.stem[-1], *line["pair"]): line["took"] for line in lines}
    return codes, said


def test_all_answer(tmp_path):
    codes, said = sweep(tmp_path, 2)
    assert codes == [0, 0]
    assert set(said) == {("0", 0, 1), ("1", 0, 1)}
    for took in said.values():
        assert set(took) == set(map(str, SIZES_BYTES))
        assert all(value > 0 for value in took.values())


def test_one_that_never_answers_is_named_and_the_others_exchange(tmp_path):
    codes, said = sweep(tmp_path, 3, hangs=2)
    assert codes == [3, 3]
    assert said["0", 0, 1] is not None
    failed = {(first, second) for (_, first, second), took in said.items() if took is None}
    assert failed == {(0, 2), (1, 2)}
