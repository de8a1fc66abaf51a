"""The smallest version of the whole test: probe, profile, forecast and run on four real ranks."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.standing import needs_bed

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
MOST_S = 600  # a hang, not a bound on speed


@needs_bed
def test_four_ranks_are_probed_profiled_forecast_and_run(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.testbed", "run", "--smoke"),
            *("--work", str(tmp_path / "work"), "-o", str(tmp_path / "out")),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=MOST_S,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "testbed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["alexnet", "dlrm"]
    for row in rows:
        assert row["world_size"] == "4"
        # Ten iterations, whose gradients were right, or the run would have failed.
        assert int(row["iterations"]) > 0, row["void"]
        assert float(row["measured_s"]) > 0
        # What is sent takes longer than what is computed, and forecasts know it.
        assert float(row["srifty_s"]) > 1.5 * float(row["compute_only_s"])
    page = (tmp_path / "out" / "testbed.md").read_text()
    assert "not any cloud" in page
    assert f"{sum(bool(row['void']) for row in rows)} runs are void" in page
