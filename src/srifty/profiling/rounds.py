"""Batch sizes timed in turn, until each is known well enough or the time is over (torch)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from srifty.profiling.journal import Journal
from srifty.profiling.steps import compiled_anew
from srifty.profiling.timing import (
    BatchTiming,
    Chunk,
    Effort,
    Stopwatch,
    chunk_steps,
    is_enough,
    summarise,
)

_LEAST_ROUNDS = 3
# Warming up may take this share of the time for all sizes.
_WARM_UP_SHARE = 0.3


@dataclass(frozen=True)
class Rounds:
    """All sizes, timed.

    Attributes:
        timings: in the order of the sizes.
        cut: the sizes that got fewer steps than they should have, for want of time.
        compile_s: what the first step of each size took longer than later ones.
    """

    timings: tuple[BatchTiming, ...]
    cut: tuple[int, ...]
    compile_s: tuple[float, ...]


def time_in_turn(
    stopwatch: Stopwatch,
    sizes: Sequence[int],
    effort: Effort,
    journal: Journal,
    *,
    compiled: bool = False,
    progress: Callable[[dict[int, BatchTiming]], None] = lambda _: None,
) -> Rounds:
    """Returns the timings of the sizes: in turn, so that a drift of the machine touches all.

    Once the time is over nothing more is begun, but that each size is warmed up with two steps and
    timed with `cut_steps`.

    Args:
        stopwatch: runs the steps.
        sizes: at least one.
        effort: when they are known well enough, and how long all of it may take.
        journal: earlier steps, and where these are kept.
        compiled: whether the model is; then the first size is compiled anew, though a trial has
            compiled it before, to know what that takes.
        progress: told what is known so far, before each round.
    """
    host_s = stopwatch.runner.device.host_s
    end_s = host_s() + effort.seconds
    chunks: dict[int, list[Chunk]] = {size: [] for size in sizes}
    for chunk in journal.chunks():
        chunks.setdefault(chunk.batch, []).append(chunk)
    step_s: dict[int, float] = {}
    compile_s: list[float] = []
    for index, size in enumerate(sizes):
        each_s = _WARM_UP_SHARE * effort.seconds / len(sizes)
        with compiled_anew() if compiled and index == 0 else nullcontext():
            first_s, step_s[size] = stopwatch.warm_up(size, each_s)
        compile_s.append(max(first_s - step_s[size], 0.0))
    over: set[int] = set()
    while True:
        timings = {size: summarise(chunks[size]) for size in sizes if chunks[size]}
        progress(timings)
        missing = [
            size
            for size in sizes
            if size not in over
            and (
                size not in timings
                or len(chunks[size]) < _LEAST_ROUNDS
                or not is_enough(timings[size], effort)
            )
        ]
        if not missing:
            break
        for size in missing:
            least = math.ceil(effort.least_steps / _LEAST_ROUNDS)
            wanted = max(least, chunk_steps(step_s[size]))
            # Those that were not timed at all must still find room; one untimed step is added.
            waiting = {size, *(other for other in sizes if not chunks[other])}
            room = int((end_s - host_s()) / sum(step_s[other] for other in waiting)) - 1
            late = room < effort.cut_steps
            if late and chunks[size]:
                over.add(size)
                continue
            steps = effort.cut_steps if late else min(wanted, room)
            chunk = stopwatch.chunk(size, steps, settle=not late)
            chunks[size].append(chunk)
            journal.add_chunk(chunk)
    return Rounds(
        timings=tuple(timings[size] for size in sizes),
        cut=tuple(size for size in sizes if timings[size].steps < effort.least_steps),
        compile_s=tuple(compile_s),
    )
