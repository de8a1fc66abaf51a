"""When gradients are ready, at several batch sizes, within the time that is left (torch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from srifty.core.profile import GradientSchedule
from srifty.profiling.gradients import GradientTimes, measure_gradients, measure_overhead
from srifty.profiling.placement import half_octaves
from srifty.profiling.ready_times import (
    MOST_ADDED,
    STEADY_BATCH,
    cut_sizes,
    next_batch,
    with_batches,
)
from srifty.profiling.steps import StepRunner
from srifty.profiling.timing import BatchTiming

# Steps that one size takes, warm-up included; fewer at the first where there is no time for these.
_STEPS, _MOST_CUT_STEPS = 9, 7
_LEAST_PAIRS, _MOST_PAIRS = 2, 10


@dataclass
class TimedGradients:
    """What was found.

    Attributes:
        schedule: the gradients; order and sizes are those of the smallest timed size from which
            they are steady.
        notes: what a user should know.
        cut: what there was no time for.
    """

    schedule: GradientSchedule
    notes: list[str] = field(default_factory=list[str])
    cut: list[str] = field(default_factory=list[str])


def time_gradients(
    runner: StepRunner,
    timings: Sequence[BatchTiming],
    *,
    accumulation: int,
    end_s: float,
    add_sizes: bool,
) -> TimedGradients:
    """Returns when gradients are ready, at the timed sizes and some between them.

    Args:
        runner: trains the workload.
        timings: the sizes that were timed.
        accumulation: passes in a step.
        end_s: on the device's host clock; no size but the first is begun that would end later.
        add_sizes: whether sizes between the timed ones may be measured too.
    """
    step_s = {t.batch: _step_s(t, accumulation) for t in timings}
    sizes = sorted(step_s)
    first = min((size for size in sizes if size >= STEADY_BATCH), default=sizes[-1])
    budget = _Budget(runner, end_s)
    cut: list[str] = []

    room = budget.steps(step_s[first])
    if room >= _STEPS:
        found = _gradients_at(runner, first)
    else:  # what is left is shared out, but two steps are needed in any case
        steps = max(1, min(_MOST_CUT_STEPS, room // 3))
        found = _gradients_at(runner, first, steps=steps, warm_up=1)
        cut.append(f"gradients ({found.steps} step{'s' * (found.steps > 1)})")

    measured, missing = [found], list[int]()
    for size in sizes:
        if size == first:
            continue
        if budget.steps(step_s[size]) >= _STEPS:
            measured.append(_gradients_at(runner, size))
        else:
            missing.append(size)
    cost = _cost_of_hooks(runner, first, budget.steps(step_s[first]) // 2)
    candidates = half_octaves(sizes[0], sizes[-1]) if add_sizes else ()
    for _ in range(MOST_ADDED):
        further = next_batch(measured, candidates)
        if further is None:
            break
        # Not timed itself: it takes no longer than the next larger size that was.
        if budget.steps(step_s[min(s for s in sizes if s > further)]) < _STEPS:
            missing.append(further)
            break
        measured.append(_gradients_at(runner, further))
    schedule = with_batches(found, measured)
    cut += cut_sizes(schedule.batches or (first,), missing)
    at = ", ".join(map(str, schedule.batches or (first,)))
    notes = [f"Gradients were timed at batch {at}; {cost}", *found.notes]
    return TimedGradients(schedule, notes, cut)


@dataclass(frozen=True)
class _Budget:
    """The time that is left."""

    runner: StepRunner
    end_s: float

    def steps(self, step_s: float) -> int:
        """Returns how many steps of a length fit in."""
        return max(int((self.end_s - self.runner.device.host_s()) / step_s), 0)


def _cost_of_hooks(runner: StepRunner, size: int, pairs: int) -> str:
    if pairs < _LEAST_PAIRS:
        return (
            "the hooks were not timed themselves, for want of time, and are not in the latencies."
        )
    batch = runner.device.move(runner.workload.batch_of(size))
    overhead = measure_overhead(runner, batch, pairs=min(pairs, _MOST_PAIRS))
    return (
        f"the hooks cost {overhead.fraction:+.1%} (± {overhead.std:.1%}) of a step at {size}, and "
        "are not in the latencies."
    )


def _gradients_at(runner: StepRunner, size: int, **how: int) -> GradientTimes:
    batch = runner.device.move(runner.workload.batch_of(size))
    return measure_gradients(runner, batch, **how)


def _step_s(timing: BatchTiming, accumulation: int) -> float:
    passes_s = accumulation * (timing.forward_s + timing.backward_s)
    return max(passes_s + timing.optimizer_s, 1e-9)
