"""N03, N05, N08, M03, M04: what a plan makes of the logs of other people."""

import os
from pathlib import Path

import pytest

from srifty.allreduce.samples import write_samples
from srifty.core.allreduce import AllreduceSample
from tests.command import srifty

from .jobs import has, plan, profile, write_case

CASES = Path(os.environ.get("SRIFTY_SHARED", "../shared")) / "cases"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="the public cases are not here")


def imported(*arguments):
    outcome = srifty("allreduce", "import", *arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def predicted(kind, world_size, sizes, *more):
    import json

    outcome = srifty(
        "allreduce", "predict", kind, "--world-size", world_size, "--sizes", sizes, "--json", *more
    )
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@needs_cases
def test_n03_one_outlier_does_not_bend_the_curve():
    imported(CASES / "N03.txt", "--instance-type", "p4d.24xlarge", "--cloud", "aws")
    rows = predicted("p4d.24xlarge", 16, "512B,1KiB,256MiB")["predictions"]
    at_512, at_1024, at_256_mib = (row["time_s"] for row in rows)
    assert at_512 == pytest.approx(170e-6, rel=0.15)
    assert at_1024 == pytest.approx(182.5e-6, rel=0.1)
    assert at_256_mib == pytest.approx(16865e-6, rel=0.05)


@needs_cases
def test_n05_another_world_is_not_averaged_in():
    answers = ("--instance-type", "lab.titan", "--cloud", "own")
    imported(CASES / "N05.txt", *answers, "--vms", 1)
    imported(CASES / "N03.txt", "--instance-type", "p4d.24xlarge", "--cloud", "aws")
    (row,) = predicted("p4d.24xlarge", 16, "256MiB")["predictions"]
    assert row["time_s"] == pytest.approx(16865e-6, rel=0.05)


@needs_cases
def test_n08_small_messages_are_warned_of_and_the_plan_carries_a_spread(tmp_path):
    imported(CASES / "N08.txt", "--instance-type", "g4dn.xlarge", "--cloud", "aws")
    gradients = [
        {"name": f"layer{i}", "bytes": 1_000_000, "ready": (i + 1) / 60} for i in range(60)
    ]
    offers = {"quota": {"g4dn.xlarge": 3}}
    path = write_case(
        tmp_path,
        offers,
        profile(gradients=gradients, max_batch=64),
        global_batch=96,
        minimize="time",
        gradient_sync={"mode": "per-layer"},
    )
    outcome = srifty("simulate", path, "--config", "3g4dn.xlarge@32")
    assert outcome.code == 0, outcome.err
    assert "lie outside what was measured (100 MiB to 110 MiB)" in outcome.out
    document = predicted("g4dn.xlarge", 3, "4KiB,104MiB", "--vms", 3)
    assert has(document["warnings"], "outside what was measured")
    for row in document["predictions"]:
        assert row["high_s"] / row["time_s"] - 1 >= 0.15
        assert 1 - row["low_s"] / row["time_s"] >= 0.15


def samples(version, factor=1.0, kind="g5.48xlarge", **facts):
    return [
        AllreduceSample(
            kind, 2, 16, 4 * 4**i, (60e-6 + 4 * 4**i / 5e9) * factor, library_version=version,
            source=f"test {version}", **facts,
        )
        for i in range(13)
    ]  # fmt: skip


def test_m03_the_version_of_the_run_decides(tmp_path):
    path = tmp_path / "two.csv"
    with path.open("w", newline="") as file:
        write_samples(samples("2.18.5") + samples("2.20.5", 2.3), file)
    assert "2.18.5" in imported(path).err  # mixing versions warns
    (slow,) = predicted("g5.48xlarge", 16, "64MiB")["predictions"]
    (fast,) = predicted("g5.48xlarge", 16, "64MiB", "--nccl", "2.18.5")["predictions"]
    assert slow["time_s"] / fast["time_s"] == pytest.approx(2.3, rel=0.1)
    offers = {
        "quota": {"g5.48xlarge": 2},
        "prices": {"g5.48xlarge": {"on-demand": 16.0}},
        "markets": ["on-demand"],
    }
    job = write_case(
        tmp_path,
        offers,
        profile("A10G", gradient_bytes=500_000_000, max_batch=32),
        global_batch=512,
    )
    unknown = plan(job)
    assert has(unknown["assumptions"], "NCCL 2.18.5 and NCCL 2.20.5")
    known = plan(job, "--set", "network={nccl: 2.18.5}")
    assert not has(known["assumptions"], "NCCL 2.20.5")
    assert known["plan"]["time_s"]["mean"] < unknown["plan"]["time_s"]["mean"]
    other = plan(job, "--set", "network={nccl: 2.27.3}")
    assert has(other["assumptions"], "the run will use NCCL 2.27.3")


def test_m04_a_burst_that_a_short_probe_saw_is_not_what_a_long_job_gets(tmp_path):
    """24 Gbit/s on a type that is rated 5, "up to 25": the sustained figure counts."""
    burst = [
        AllreduceSample("g4dn.xlarge", 2, 2, 4 * 4**i, 60e-6 + 4 * 4**i / 3e9) for i in range(13)
    ]
    path = tmp_path / "burst.csv"
    with path.open("w", newline="") as file:
        write_samples(burst, file)
    imported(path)
    (row,) = predicted("g4dn.xlarge", 2, "64MiB")["predictions"]
    sustained = 64 * 2**20 / (5e9 / 8)
    assert row["time_s"] == pytest.approx(sustained, rel=0.01)
