"""The forecasts of public iteration times: how far they may be off. Skipped without the data."""

import json
import os
from pathlib import Path

import pytest
from benchmarks.iteration_times import cluster_rows, write_rows

from tests.command import srifty

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", REPOSITORY.parent / "shared" / "data"))
TABLE = DATA / "sia_pollux" / "step_times.csv"

pytestmark = pytest.mark.skipif(
    not TABLE.is_file(), reason=f"there is no {TABLE}; SRIFTY_PUBLIC_DATA names its folder"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("public") / "iterations.csv"
    write_rows(cluster_rows(TABLE, "aws"), path)
    return path


def evaluate(path, *options):
    outcome = srifty("evaluate", "iterations", path, *options, "--json")
    assert outcome.code == 0
    return json.loads(outcome.out)


def test_each_workload_from_the_others(path):
    found = evaluate(path, "--hold-out", "workload")
    assert found["srifty"]["rows"] == 6884
    assert found["srifty"]["mape"] < 0.102
    assert found["srifty"]["mape"] < 0.6 * found["apm"]["mape"]
    assert 0.85 < found["srifty"]["p90_coverage"] < 0.95


def test_larger_clusters_from_smaller_ones(path):
    found = evaluate(path, "--hold-out", "nodes", "--train-max-vms", "4")
    assert found["srifty"]["rows"] == 1561
    assert found["srifty"]["mape"] < 0.097
    assert found["srifty"]["mape"] < 0.7 * found["apm"]["mape"]
    assert 0.85 < found["srifty"]["p90_coverage"] < 0.95
