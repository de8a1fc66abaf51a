"""What is learned from and what is forecast of others' runs."""

import csv
import os
from pathlib import Path

import pytest
from benchmarks.paper.forecasts import forecast
from benchmarks.paper.public_runs import RunSet, each_group, larger, run_sets

from srifty.core.observation import Observation

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", REPOSITORY.parent / "shared" / "data"))

needs_data = pytest.mark.skipif(
    not (DATA / "sia_pollux").is_dir(),
    reason=f"there are no runs in {DATA}; SRIFTY_PUBLIC_DATA names their folder",
)


def observation(workload, vms, batch=8):
    return Observation(workload, "T4", "made", (1,) * vms, batch, 1.0)


ROWS = [observation(name, vms) for name in "abc" for vms in (1, 2, 4, 8)]


def test_no_row_of_a_group_is_learned_from():
    parts = each_group(lambda row: row.workload)(ROWS)
    assert len(parts) == 3
    for part in parts:
        (name,) = {row.workload for row in part.held}
        assert name not in {row.workload for row in part.learned}
        assert all(row.vms > 1 for row in part.held)
    assert sum(len(part.held) for part in parts) == 9


def test_larger_clusters_from_smaller_ones():
    (part,) = larger(2)(ROWS)
    assert {row.vms for row in part.learned} == {2}
    assert {row.vms for row in part.held} == {4, 8}


def test_forecasts_do_not_move_with_what_was_held_out():
    def made(held_s):
        rows = []
        for name, size in (("a", 100_000_000), ("b", 50_000_000)):
            for vms in (1, 2, 4):
                step_s = 0.1 if vms == 1 else 0.2 + 0.01 * vms
                if name == "b" and vms > 1:
                    step_s = held_s
                rows.append(
                    {"workload": name, "gpu": "T4", "instance_type": "made",
                     "placement": "-".join("1" * vms), "vms": str(vms), "workers": str(vms),
                     "local_batch": "8", "step_s": str(step_s), "sync_s": "",
                     "gradient_bytes": str(size)}
                )  # fmt: skip
        return RunSet("made", tuple(rows), each_group(lambda row: row.workload), "", "")

    one, other = forecast(made(0.15)), forecast(made(0.9))
    held = [run.workload == "b" for run in one.runs]
    assert one.mean_s[held] == pytest.approx(other.mean_s[held], rel=1e-12)
    assert one.p90_s[held] == pytest.approx(other.p90_s[held], rel=1e-12)
    assert (one.p10_s >= 0).all()
    assert set(one.regime) <= {"compute-bound", "latency-bound", "bandwidth-bound"}


@needs_data
def test_public_runs_are_read_and_parted():
    counts = {}
    for runs in run_sets(DATA):
        rows = [
            Observation(
                row["workload"], row["gpu"], row["instance_type"],
                tuple(int(used) for used in row["placement"].split("-")),
                int(row["local_batch"]), float(row["step_s"]),
            )
            for row in runs.rows
        ]  # fmt: skip
        parts = runs.split(rows)
        assert parts
        for part in parts:
            assert not set(part.held) & set(part.learned)
        counts[runs.name] = sum(len(part.held) for part in parts)
    assert counts["sia_pollux, aws"] == 6884
    assert counts["dlperf_oneflow"] == 190
    assert counts["bamboo, p3.2xlarge"] == 2


@needs_data
def test_a_step_time_is_what_the_source_says():
    runs = next(iter(run_sets(DATA)))
    with (DATA / "sia_pollux" / "step_times.csv").open() as file:
        first = next(row for row in csv.DictReader(file) if row["cluster"] == "aws")
    assert float(runs.rows[0]["step_s"]) == float(first["step_time"])
    assert runs.rows[0]["placement"] == "-".join(first["placement"])
