"""How long `srifty plan` takes with a store of 40,000 samples: the first time, and from then on.

    python -m benchmarks.plan_with_store [--rows 40000]

The samples are made up: instance types of the catalog, worlds of 2 to 32 VMs, sizes from 4 B to
512 MiB, 10 % noise. Prints the times as ratios to a plan without any store, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from srifty.allreduce.records import SourceFile
from srifty.allreduce.store import SampleStore
from srifty.core.allreduce import AllreduceSample

KINDS = ("g4dn.12xlarge", "g4dn.xlarge", "p3.8xlarge", "p3.16xlarge", "g5.48xlarge", "p4d.24xlarge")
GPUS = {"g4dn.12xlarge": 4, "g4dn.xlarge": 1, "p3.8xlarge": 4}
WORLDS = (2, 3, 4, 6, 8, 16, 32)
SIZES = tuple(4 * 2**power for power in range(28))
JOB = Path("examples/resnet50.yaml")


def samples(rows: int, seed: int = 0) -> list[AllreduceSample]:
    """Returns made-up samples of several transports, worlds, sizes and repeats."""
    rng = np.random.default_rng(seed)
    found: list[AllreduceSample] = []
    repeat = 0
    while len(found) < rows:
        for kind in KINDS:
            gpus = GPUS.get(kind, 8)
            for vms in WORLDS:
                n = vms * gpus
                for size in SIZES:
                    time_s = 50e-6 * (1 + np.log2(n)) + 2 * size * (n - 1) / n / 1.2e9
                    found.append(
                        AllreduceSample(
                            kind, vms, n, size, float(time_s * np.exp(rng.normal(0, 0.1))),
                            cloud="aws", transport="tcp-socket", library_version="2.21.5",
                            source="made up", run=str(repeat),
                        )
                    )  # fmt: skip
        repeat += 1
    return found[:rows]


def plan_s(database: Path | None) -> float:
    """Returns the seconds that the whole command takes."""
    environment = {**os.environ, "SRIFTY_DB": str(database or "/nonexistent/srifty.db")}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "srifty", "plan", str(JOB), "--json"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "srifty.db"
        with SampleStore.open(database) as store:
            store.add(samples(rows), file=SourceFile("made up", "0" * 64))
        without = min(plan_s(None) for _ in range(3))
        first = plan_s(database)
        later = [plan_s(database) for _ in range(5)]
    print(f"without a store                  {without:.2f} s")
    print(f"{rows:,} rows, the first plan    {first:.2f} s ({first / without:.1f} x)")
    print(
        f"{rows:,} rows, later plans       {np.median(later):.2f} s "
        f"({np.median(later) / without:.2f} x), the slowest of 5 {max(later):.2f} s"
    )


if __name__ == "__main__":
    main()
