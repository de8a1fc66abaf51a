"""A step or two at many batch sizes, from which the few worth timing are chosen (torch)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from srifty.profiling.journal import Journal
from srifty.profiling.placement import Scouted
from srifty.profiling.timing import Stopwatch

# A disturbance of the machine seldom lasts over half of the passes.
PASSES = 5
# Steps of one size in one pass: as many as run in so long, within limits.
_LOOK_S = 0.1
LEAST_STEPS, MOST_STEPS = 2, 10


def scout(
    stopwatch: Stopwatch,
    sizes: Sequence[int],
    *,
    seconds: float = float("inf"),
    journal: Journal | None = None,
) -> tuple[tuple[Scouted, ...], ...]:
    """Returns what each pass over the sizes saw; no pass where even one would take too long.

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
    steps = dict.fromkeys(sizes, LEAST_STEPS)
    for number in range(PASSES):
        pass_s = host_s()
        for size in sizes:
            if (number, size) not in done:
                seen = _look(stopwatch, size, steps[size])
                done[number, size] = seen
                steps[size] = steps_of_a_look(seen.forward_s + seen.backward_s)
                journal.add_scouted(number, seen)
        now_s = host_s()
        if now_s - began_s + (now_s - pass_s) > seconds:
            break
    whole = [n for n in range(PASSES) if all((n, size) in done for size in sizes)]
    return tuple(tuple(done[number, size] for size in sizes) for number in whole)


def steps_of_a_look(step_s: float) -> int:
    """Returns how many steps of so long one pass runs."""
    return min(max(int(_LOOK_S / max(step_s, 1e-9)), LEAST_STEPS), MOST_STEPS)


def _affordable(stopwatch: Stopwatch, sizes: Sequence[int], seconds: float) -> bool:
    """Whether one pass fits, by a step at the largest size, were time proportional to it."""
    step_s = stopwatch.chunk(sizes[-1], 1, settle=False).wall_s
    return (LEAST_STEPS + 1) * step_s * sum(sizes) / sizes[-1] <= seconds


def _look(stopwatch: Stopwatch, size: int, steps: int) -> Scouted:
    times = stopwatch.chunk(size, steps).times
    return Scouted(
        size, median(one.forward_s for one in times), median(one.backward_s for one in times)
    )
