"""Mutated catalog rows: each gives an error or a right row; and how fast a catalog is imported.

    python -m benchmarks.fuzz_catalog [--examples 20000] [--rows 100000] [--seed 0]

from the repository's root. Data: made-up rows in the shape of SkyPilot's catalogs/v8/aws/vms.csv
(`tests/catalog/skypilot_rows.py`), mutated one to four times each by a seeded generator and judged
by a second reading of the row that shares no code with the importer. Import: the same rows over
zones, a third of them without GPUs.
"""

from __future__ import annotations

import argparse
import random
import time

from tests.catalog.skypilot_rows import (
    BASES,
    DATE,
    HEADER,
    KNOWN,
    assert_error_or_right,
    line_of,
    mutated_line,
)

from srifty.catalog.skypilot import import_skypilot


def fuzz(examples: int, seed: int) -> int:
    """Returns how many mutated rows gave a price; raises `AssertionError` at a wrong one."""
    rng = random.Random(seed)  # noqa: S311 - reproducible on purpose
    taken = 0
    for number in range(examples):
        line = mutated_line(rng)
        try:
            taken += assert_error_or_right(line)
        except Exception:
            print(f"example {number} of seed {seed}: {line!r}")
            raise
    return taken


def catalog(rows: int) -> list[str]:
    """Returns a catalog with that many rows: each type in as many zones as it takes."""
    lines = [HEADER]
    for number in range(rows):
        if number % 3 == 2:
            lines.append("m5.large,,,2.0,8.0,,0.096,0.03,us-east-1,use1-az1,x86_64")
            continue
        values = list(BASES[number % len(BASES)])
        values[9] = f"{values[9]}{number}"
        values[7] = f"{float(values[7]) * (1 + number % 97 / 1000):.6f}"
        lines.append(line_of(values))
    return lines


def main() -> None:
    """Prints both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began = time.perf_counter()
    taken = fuzz(asked.examples, asked.seed)
    print(
        f"{asked.examples:,} mutated rows in {time.perf_counter() - began:.1f} s: "
        f"{taken:,} right, {asked.examples - taken:,} dropped with a reason, 0 wrong"
    )
    lines = catalog(asked.rows)
    seconds: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        result = import_skypilot(lines, "aws", DATE, KNOWN)
        seconds.append(time.perf_counter() - began)
    print(
        f"{result.rows:,} rows imported in {min(seconds):.2f} s (best of 3: "
        f"{len(result.prices):,} prices, {len(result.types)} types)"
    )


if __name__ == "__main__":
    main()
