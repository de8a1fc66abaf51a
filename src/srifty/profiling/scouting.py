"""A step or two at many batch sizes, from which the few worth timing are chosen (torch)."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.profiling.journal import Journal
from srifty.profiling.placement import Scouted
from srifty.profiling.timing import Stopwatch

# The least of three passes over all sizes, two steps in each: a disturbance seldom lasts over all.
PASSES, STEPS = 3, 2


def scout(
    stopwatch: Stopwatch,
    sizes: Sequence[int],
    *,
    seconds: float = float("inf"),
    journal: Journal | None = None,
) -> tuple[Scouted, ...]:
    """Returns what a few steps at every size took; nothing where even one pass would take too long.

    Args:
        stopwatch: runs the steps.
        sizes: ascending.
        seconds: no pass begins that would probably end later.
        journal: what earlier passes saw, and where these are kept; None: nowhere.
    """
    journal = journal or Journal(None, {})
    host_s = stopwatch.runner.device.host_s
    began_s = host_s()
    done = {(number, seen.batch): seen for number, seen in journal.scouted()}
    if (0, sizes[-1]) not in done and not _affordable(stopwatch, sizes, seconds):
        return ()
    for number in range(PASSES):
        pass_s = host_s()
        for size in sizes:
            if (number, size) not in done:
                seen = _look(stopwatch, size)
                done[number, size] = seen
                journal.add_scouted(number, seen)
        now_s = host_s()
        if now_s - began_s + (now_s - pass_s) > seconds:
            break
    return tuple(_least(size, done) for size in sizes)


def _affordable(stopwatch: Stopwatch, sizes: Sequence[int], seconds: float) -> bool:
    """Whether one pass fits, by a step at the largest size, were time proportional to it."""
    step_s = stopwatch.chunk(sizes[-1], 1, settle=False).wall_s
    return (STEPS + 1) * step_s * sum(sizes) / sizes[-1] <= seconds


def _look(stopwatch: Stopwatch, size: int) -> Scouted:
    times = stopwatch.chunk(size, STEPS).times
    return Scouted(size, min(one.forward_s for one in times), min(one.backward_s for one in times))


def _least(size: int, done: dict[tuple[int, int], Scouted]) -> Scouted:
    seen = [one for (_, batch), one in done.items() if batch == size]
    return Scouted(size, min(one.forward_s for one in seen), min(one.backward_s for one in seen))
