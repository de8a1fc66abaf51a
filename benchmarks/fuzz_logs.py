"""Damaged logs of nccl-tests: each gives an error or rows that its text bears out.

    python -m benchmarks.fuzz_logs [--data ../shared/data/nccl-tests/raw] [--count 100000]

from the repository's root. Logs: self-made ones of every era (`tests/allreduce/logs`) and, where
the folder exists, real ones; long ones are thinned to their ends. Each example breaks
one of them in one to four ways by a seeded generator (cut, wrong digits, lost or doubled words,
glued, shuffled or foreign lines, messages in the middle, other units, a scaled column), reads it,
and has every accepted row judged by exact fractions that share no code with the reader.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from tests.allreduce.logs.mutations import damaged, self_made, violations

from srifty.allreduce.logs import read_log
from srifty.errors import InputError

MOST_LINES = 90


def real_logs(folder: Path) -> list[str]:
    """Returns the texts of a folder's logs; none where there is no such folder."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))]
    return [_thinned(text) for text in texts]


def _thinned(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= MOST_LINES:
        return text
    rows = [line for line in lines if "float" in line or "Rank " in line or "busbw" in line]
    return "\n".join([*lines[:20], *rows[: MOST_LINES - 40], *lines[-20:]])


def fuzz(logs: list[str], count: int, seed: int) -> tuple[int, int]:
    """Returns how many damaged logs gave rows and how many rows; stops at the first wrong one."""
    draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
    with_rows = rows = 0
    for number in range(count):
        text = damaged(draw, logs)
        try:
            log = read_log(text.encode(), name="log.txt")
            wrong = violations(text, log)
        except InputError:
            continue
        except Exception:
            Path("fuzz-failure.txt").write_text(text, encoding="utf-8")
            print(f"example {number} of seed {seed} is in fuzz-failure.txt")
            raise
        if wrong:
            Path("fuzz-failure.txt").write_text(text, encoding="utf-8")
            raise SystemExit(f"example {number} of seed {seed} (fuzz-failure.txt): {wrong[0]}")
        with_rows += bool(log.rows)
        rows += len(log.rows)
    return with_rows, rows


def main() -> None:
    """Prints what came of the damaged logs, and how fast logs are read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/nccl-tests/raw"))
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    real = real_logs(given.data)
    logs = self_made() + real
    began = time.perf_counter()
    with_rows, rows = fuzz(logs, given.count, given.seed)
    took_s = time.perf_counter() - began
    print(
        f"{given.count} damaged logs ({len(logs)} originals, {len(real)} of them real): "
        f"{with_rows} gave {rows} rows, none of them wrong; {took_s:.0f} s"
    )


if __name__ == "__main__":
    main()
