"""Processes that fill one store and are killed, and what must hold of it afterwards.

    python -m tests.allreduce.store_writers STORE FIRST COUNT

is such a process: it says "ready", and the number of every file once it is stored.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from srifty.allreduce.records import SourceFile
from srifty.allreduce.store import SampleStore
from srifty.core.allreduce import AllreduceSample

ROWS = 120
# Longer than a writer needs for its first files, so that kills fall on making the store, on
# writing, and in between.
_LATEST_KILL_S = 0.15


@dataclass
class Tally:
    """What happened in some rounds.

    Attributes:
        kills: writers that were killed while they had work left.
        stored: files that writers said were stored.
        unsaid: files found whole that no writer had said were stored.
        torn: kills in the middle of a write, as far as that shows: a journal was left behind.
    """

    kills: int = 0
    stored: int = 0
    unsaid: int = 0
    torn: int = 0


def samples_of(number: int) -> list[AllreduceSample]:
    """The samples of a file: the same whenever it is asked for."""
    rng = random.Random(number)
    return [
        AllreduceSample(
            "a1.x", 2, 16, 1 << (row % 28), rng.uniform(1e-5, 1e-2), run=str(row // 28),
            source=f"file {number}",
        )
        for row in range(ROWS)
    ]  # fmt: skip


def start(path: Path, first: int, count: int) -> subprocess.Popen[str]:
    """Starts a writer and waits until it begins."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.allreduce.store_writers", str(path), str(first), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def finish(writer: subprocess.Popen[str]) -> set[int]:
    """Waits for a writer's end; returns the numbers of the files that it stored."""
    out, _ = writer.communicate(timeout=120)
    # A killed writer may leave half a line.
    return {int(line) for line in out.splitlines(keepends=True) if line.endswith("\n")}


def kill_rounds(path: Path, rounds: int, seed: int) -> Tally:
    """Writers that are killed, every second one beside another; checks the store after each round.

    Args:
        path: the store; made by the first writers, anew after every fifth round.
        rounds: how many writers to kill.
        seed: of the moments.
    """
    rng = random.Random(seed)
    tally = Tally()
    said: set[int] = set()
    begun: set[int] = set()
    for number in range(rounds):
        if number % 5 == 0:
            for leftover in path.parent.glob(f"{path.name}*"):
                leftover.unlink()
            said, begun = set(), set()
        first = 1000 * number
        begun |= set(range(first, first + 506))
        victim = start(path, first, 400)
        other = start(path, first + 500, 6) if number % 2 else None
        try:
            victim.wait(timeout=rng.uniform(0, _LATEST_KILL_S))
        except subprocess.TimeoutExpired:
            victim.kill()
            tally.kills += 1
        stored = finish(victim)
        if other is None:
            tally.torn += path.with_name(f"{path.name}-journal").exists()
        else:
            stored |= finish(other)
            assert other.returncode == 0, "the writer that was left alone failed"
        said |= stored
        tally.stored += len(stored)
        if not path.exists():
            assert not said
            continue  # killed before it had made anything
        found = check(path, said, begun)
        tally.unsaid += len(found - said)
        said = found
    return tally


def check(path: Path, said: set[int], begun: set[int]) -> set[int]:
    """Raises `AssertionError` unless the store is whole; returns the numbers of its files."""
    with SampleStore.open(path, create=False) as store:
        files, samples = store.files(), store.samples()
    numbers = {int(file.name) for file in files}
    assert len(numbers) == len(files), "a file is there twice"
    assert said <= numbers, f"lost: {sorted(said - numbers)}"
    assert numbers <= begun
    assert all(file.rows_held == ROWS for file in files), "a file is there in part"
    assert len(samples) == len(set(samples)) == ROWS * len(files), "samples lost or doubled"
    expected = {sample for number in numbers for sample in samples_of(number)}
    assert set(samples) == expected
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return numbers


def _write(path: Path, first: int, count: int) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(first, first + count):
        with SampleStore.open(path) as store:
            store.add(samples_of(number), file=SourceFile(str(number), f"digest {number}"))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
