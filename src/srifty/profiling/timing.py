"""How long steps of a batch size take: warm-up, rounds over the sizes, spread, drift (torch)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srifty.profiling.steps import StepRunner, StepTimes

# What the parts of a step may miss of the wall time of the loop that ran it.
MOST_MISSING = 0.05
# Of a normal distribution: interquartile range over standard deviation, and how much less precise
# a median is than a mean.
_IQR_PER_STD = 1.349
_STD_OF_MEDIAN = 1.253
# A step that took this many times the median was disturbed: collection, another program.
_DISTURBED = 2.0
_WARM_UP_MOST, _WARM_UP_S = 50, 20.0
# Warm once steps get faster by no more than this from one group of steps to the next.
_STABLE = 0.05
_CHUNK_S = 0.25
_LEAST_CHUNK, _MOST_CHUNK = 3, 50
# Two batches alternate, so that no step finds its own input in a cache.
_BATCHES = 2
_CACHED_SIZES = 16


@dataclass(frozen=True, slots=True)
class Effort:
    """When a batch size is known well enough.

    Attributes:
        precision: standard error of the median step time, as a fraction of it.
        least_steps: timed steps at least, if there is time for them.
        most_steps: timed steps at most.
        cut_steps: timed steps at least, whatever they take.
        seconds: for all sizes together; where they are over, each still gets `cut_steps`.
    """

    precision: float = 0.02
    least_steps: int = 10
    most_steps: int = 1000
    cut_steps: int = 2
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Steps of one size that ran one after the other.

    Attributes:
        batch: samples in a pass.
        times: of each step.
        wall_s: of the loop over them, by the host's clock; the device was idle before and after.
    """

    batch: int
    times: tuple[StepTimes, ...]
    wall_s: float


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """One batch size, timed.

    Attributes:
        batch: samples in a pass.
        forward_s: median forward pass, seconds.
        backward_s: median backward pass.
        optimizer_s: median optimizer step.
        std_s: standard deviation of the step time from step to step (by the quartiles).
        steps: timed steps.
        error: standard error of the median step, as a fraction of it.
        missing: share of the loop's wall time that is in no part.
        disturbed: share of the steps that took over twice the median.
        drift: by which fraction the last third of the steps took longer than the first.
    """

    batch: int
    forward_s: float
    backward_s: float
    optimizer_s: float
    std_s: float
    steps: int
    error: float
    missing: float
    disturbed: float
    drift: float


class Stopwatch:
    """Runs and times steps of a workload.

    Args:
        runner: trains it.
    """

    def __init__(self, runner: StepRunner) -> None:
        self.runner = runner
        self._batches: OrderedDict[int, list[Any]] = OrderedDict()

    def warm_up(self, batch: int, seconds: float = _WARM_UP_S) -> tuple[float, float]:
        """Runs steps until they get no faster: two at least.

        Args:
            batch: samples in a pass.
            seconds: no step begins later.

        Returns:
            seconds of the first step (with everything that is done once), and of the last ones.
        """
        first = self.chunk(batch, 1, settle=False)
        groups, steps, spent_s = [math.inf], 1, first.wall_s
        while steps == 1 or (steps < _WARM_UP_MOST and spent_s < seconds):
            # The first step may have compiled; where time is short, one tells how long others take.
            step_s = min(first.wall_s, groups[-1])
            together = _LEAST_CHUNK if spent_s + _LEAST_CHUNK * step_s <= seconds else 1
            chunk = self.chunk(batch, together, settle=False)
            groups.append(chunk.wall_s / together)
            steps, spent_s = steps + together, spent_s + chunk.wall_s
            if groups[-1] > (1 - _STABLE) * groups[-2]:
                break
        return first.wall_s, min(groups)

    def chunk(self, batch: int, steps: int, *, settle: bool = True) -> Chunk:
        """Returns the times of some steps.

        Args:
            batch: samples in a pass.
            steps: how many.
            settle: whether an untimed step goes before, which the size timed last still slows.
        """
        runner, device = self.runner, self.runner.device
        batches = [device.move(one) for one in self._made(batch)]
        if settle:
            runner.step(batches[-1])
        device.synchronize()
        began_s = device.host_s()
        marks = [runner.step(batches[step % len(batches)]) for step in range(steps)]
        device.synchronize()
        wall_s = device.host_s() - began_s
        return Chunk(batch, tuple(runner.times(one) for one in marks), wall_s)

    def _made(self, batch: int) -> list[Any]:
        """Returns batches in the host's memory, kept for the rounds to come."""
        if batch not in self._batches:
            made = [self.runner.workload.batch_of(batch) for _ in range(_BATCHES)]
            self._batches[batch] = made
            while len(self._batches) > _CACHED_SIZES:
                self._batches.popitem(last=False)
        return self._batches[batch]


def chunk_steps(step_s: float) -> int:
    """Returns how many steps of so long run between two waits for the device."""
    return max(_LEAST_CHUNK, min(_MOST_CHUNK, int(_CHUNK_S / max(step_s, 1e-9))))


def is_enough(timing: BatchTiming, effort: Effort) -> bool:
    """Whether a batch size is known well enough."""
    if timing.steps < effort.least_steps:
        return False
    return timing.error <= effort.precision or timing.steps >= effort.most_steps


def summarise(chunks: Sequence[Chunk]) -> BatchTiming:
    """Returns what the chunks of one batch size, at least one step, say. Pure."""
    times = [one for chunk in chunks for one in chunk.times]
    steps_s = np.array([one.step_s for one in times])
    median_s = float(np.median(steps_s))
    lower, upper = np.percentile(steps_s, [25, 75])
    std_s = float(upper - lower) / _IQR_PER_STD
    # What lies between two steps, or was left unmarked, is in the wall time alone. Accumulated
    # passes are all in the step; forward and backward are means over them.
    marked_s = float(np.sum(steps_s))
    wall_s = sum(chunk.wall_s for chunk in chunks)
    third = max(1, len(times) // 3)
    return BatchTiming(
        batch=chunks[0].batch,
        forward_s=float(np.median([one.forward_s for one in times])),
        backward_s=float(np.median([one.backward_s for one in times])),
        optimizer_s=float(np.median([one.optimizer_s for one in times])),
        std_s=std_s,
        steps=len(times),
        error=_STD_OF_MEDIAN * std_s / math.sqrt(len(times)) / median_s,
        missing=1 - marked_s / wall_s,
        disturbed=float(np.mean(steps_s > _DISTURBED * median_s)),
        drift=float(np.median(steps_s[-third:]) / np.median(steps_s[:third])) - 1,
    )
