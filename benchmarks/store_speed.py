"""How long the store of allreduce samples takes to fill and to read.

    python -m benchmarks.store_speed [--rows 40000]

from the repository's root. The samples are made up: 100 files of equally many rows, 28 sizes each.
Prints the median of five readings.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from srifty.allreduce.records import SourceFile
from srifty.allreduce.store import SampleStore
from srifty.core.allreduce import AllreduceSample

_FILES = 100
_REPEATS = 5


def samples_of(file: int, rows: int) -> list[AllreduceSample]:
    """Returns the samples of one file, the same for the same arguments."""
    rng = random.Random(file)  # noqa: S311 - reproducible on purpose
    return [
        AllreduceSample(
            f"type{file % 12}", 2, 16, 4 << row % 28, rng.uniform(1e-5, 1e-1), "aws", "efa", "2.18",
            f"log {file}", run=str(row // 28),
        )
        for row in range(rows)
    ]  # fmt: skip


def seconds(action: Callable[[], object]) -> float:
    """Returns how long something takes: the median of some times."""
    found: list[float] = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return median(found)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    rows = parser.parse_args().rows
    files = [samples_of(file, rows // _FILES) for file in range(_FILES)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "srifty.db"
        began = time.perf_counter()
        for number, samples in enumerate(files):
            with SampleStore.open(path) as store:
                store.add(samples, file=SourceFile(f"{number}.log", str(number)))
        print(f"filling, {_FILES} files one by one: {time.perf_counter() - began:.2f} s")
        with SampleStore.open(path, create=False) as store:
            print(f"samples():     {seconds(store.samples):.3f} s for {len(store.samples()):,}")
            print(
                f"one type:      {seconds(lambda: store.samples(instance_types=['type1'])):.3f} s"
            )
            print(f"curves():      {seconds(store.curves):.3f} s")
            print(f"fingerprint(): {seconds(store.fingerprint) * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
