"""Real process groups on this host's loopback."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import srifty
from srifty.allreduce.samples import read_samples
from srifty.allreduce.store import SampleStore
from srifty.units import KIB

pytest.importorskip("torch", reason="torch is an extra")

LIMIT_S = 150
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def torchrun(processes, module, *arguments):
    """Runs a module under torchrun; on loopback alone."""
    source = Path(srifty.__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(source), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
        processes, "-m", module, *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        [*map(str, command)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "srifty failed" not in done.stderr  # how the command line reports a fault of its own
    return Outcome(done.returncode, done.stdout, done.stderr)


def faulty(fault, rank, step, *arguments):
    options = ("--sizes", "4B,32B", "--repeats", "50", "--seconds", "60")
    return torchrun(3, "tests.probing.faulty", fault, rank, step, "probe", *options, *arguments)


def test_two_ranks_measure_the_grid(tmp_path):
    csv, store = tmp_path / "probe.csv", tmp_path / "store.db"
    outcome = torchrun(
        2, "srifty", "probe", "--sizes", "1KiB,64KiB", "--concurrent", "1..2", "--repeats", "3",
        "--seconds", "30", "--dtype", "float16", "--cloud", "aws", "--zone", "use1-az1",
        "--instance-type", "g4dn.xlarge", "--no-placement-group", "-o", csv, "--db", store,
        "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)  # rank 1 printed nothing
    assert document["ended"] == "done"
    samples = read_samples(csv)
    with SampleStore.open(store, create=False) as opened:
        assert opened.samples() == samples
    assert document["samples"] == len(samples) == 2 * 2 * 3
    cells = {(s.size_bytes, s.concurrent, s.run.partition("/")[2]) for s in samples}
    assert cells == {(k * KIB, c, str(r)) for k in (1, 64) for c in (1, 2) for r in (1, 2, 3)}
    assert len({s.allocation for s in samples}) == 1
    for sample in samples:
        assert 0 < sample.time_s < 30
        assert (sample.vms, sample.world_size, sample.gpu) == (1, 2, "cpu")
        assert (sample.cloud, sample.zone, sample.placement_group) == ("aws", "use1-az1", False)
        assert (sample.transport, sample.config) == ("tcp-socket", "GLOO_SOCKET_IFNAME=lo")
        assert sample.library_version.startswith("gloo torch-")
        assert (sample.dtype, sample.in_place) == ("half", True)
        assert sample.measured_at is not None


def test_a_rank_that_dies_ends_the_others_and_rank_0_keeps_what_there_is(tmp_path):
    csv = tmp_path / "probe.csv"
    outcome = faulty("kill", 2, 10, "-o", csv)  # 6 operations of the first trial, 3 samples
    assert outcome.code != 0
    assert "rank was lost" in outcome.err or "another rank has died" in outcome.err
    assert len(read_samples(csv)) == 3
    assert "3 samples are kept" in outcome.err
    assert outcome.err.count("exitcode  : 4") == 2  # of ranks 0 and 1, in torchrun's report


def test_an_interrupt_on_one_rank_stops_all(tmp_path):
    csv = tmp_path / "probe.csv"
    outcome = faulty("interrupt", 1, 10, "-o", csv)
    assert "error: stopped by Ctrl-C" in outcome.err
    assert len(read_samples(csv)) == 3
    assert "exitcode  : 130" in outcome.err
    assert "rank was lost" not in outcome.err


def test_a_wrong_sum_is_noticed_and_nothing_is_kept(tmp_path):
    csv = tmp_path / "probe.csv"
    outcome = faulty("spoil", 1, 0, "-o", csv)
    assert "error: an allreduce of 4 B gave a wrong sum" in outcome.err
    assert "exitcode  : 4" in outcome.err
    assert not csv.exists()
