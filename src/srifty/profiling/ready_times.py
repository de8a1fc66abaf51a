"""Ready times at several batch sizes: which to measure, and all of them in one schedule. Pure.

Part of the backward pass is for the weights alone, and kernels change with the size: so fractions
of it shift with the batch, in some models by a tenth. Between two sizes they are interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from srifty.core.profile import GradientSchedule
from srifty.errors import InputError

if TYPE_CHECKING:
    from srifty.profiling.gradients import GradientTimes

# So many sizes are measured beside those that are timed anyway, at most.
MOST_ADDED = 4
# From this batch on, neighbouring sizes lie at most so far apart, as a ratio ...
STEADY_BATCH = 16
_MOST_APART = 4.0
# ... and their ready times differ by no more than this, as a fraction of the backward pass, unless
# there is no size between them.
_MOST_DIFFERENT = 0.02


def next_batch(measured: Sequence[GradientTimes], candidates: Sequence[int]) -> int | None:
    """Returns the batch size whose ready times to measure next; None: enough is known.

    It halves, by ratio, the pair of neighbours that is too far apart: the widest first, then those
    whose ready times differ most.

    Args:
        measured: one workload at one or more batch sizes.
        candidates: the batch sizes to choose from.
    """
    known = sorted(measured, key=lambda times: times.batch)
    best: tuple[tuple[bool, float], int] | None = None
    for low, high in pairwise(known):
        between = [size for size in candidates if low.batch < size < high.batch]
        if high.batch <= STEADY_BATCH or not between:
            continue
        apart = high.batch / max(low.batch, STEADY_BATCH)
        different = ready_error(low.schedule, high.schedule) if _alike(low, high) else 0.0
        if apart > _MOST_APART:
            rank = (True, apart)
        elif different > _MOST_DIFFERENT:
            rank = (False, different)
        else:
            continue
        steady = low.batch >= STEADY_BATCH
        middle = math.sqrt(low.batch * high.batch) if steady else STEADY_BATCH
        chosen = min(between, key=lambda size: abs(math.log(size / middle)))
        if best is None or rank > best[0]:
            best = rank, chosen
    return None if best is None else best[1]


def with_batches(reference: GradientTimes, measured: Sequence[GradientTimes]) -> GradientSchedule:
    """Returns a schedule that knows the ready times at several batch sizes.

    Args:
        reference: gives order and sizes of the gradients.
        measured: the same workload at other batch sizes; those at which other gradients came are
            left out.
    """
    sizes = {times.batch: times for times in (*measured, reference) if _alike(times, reference)}
    if len(sizes) == 1:
        return reference.schedule
    fractions = {
        batch: {gradient.name: gradient.ready for gradient in sizes[batch].schedule.gradients}
        for batch in sorted(sizes)
    }
    return replace(
        reference.schedule,
        gradients=tuple(
            replace(
                gradient,
                ready_at={batch: ready[gradient.name] for batch, ready in fractions.items()},
            )
            for gradient in reference.schedule.gradients
        ),
    )


def cut_sizes(known: Sequence[int], missing: Sequence[int]) -> tuple[str, ...]:
    """Returns what it means that some sizes were not measured, in words.

    Args:
        known: the batch sizes whose ready times are known, ascending; at least one.
        missing: those that there was no time for.
    """
    gaps: dict[str, list[int]] = {}
    for size in sorted(missing):
        low = max((each for each in known if each < size), default=None)
        high = min((each for each in known if each > size), default=None)
        if low is not None and high is not None:
            instead = f"ready times are interpolated between {low} and {high}"
        else:
            instead = f"the ready times of {low or high} are taken"
        gaps.setdefault(instead, []).append(size)
    return tuple(
        f"gradients at batch {', '.join(map(str, sizes))} ({instead})"
        for instead, sizes in gaps.items()
    )


def ready_error(predicted: GradientSchedule, observed: GradientSchedule) -> float:
    """Returns the mean absolute difference of ready times, as a fraction of the backward pass.

    Raises:
        InputError: the schedules are of different gradients, or of none.
    """
    known = {gradient.name: gradient.ready for gradient in predicted.gradients}
    if not known or known.keys() != {gradient.name for gradient in observed.gradients}:
        raise InputError("ready times can only be compared between schedules of one model")
    return sum(abs(known[g.name] - g.ready) for g in observed.gradients) / len(known)


def _alike(one: GradientTimes, other: GradientTimes) -> bool:
    """Whether the same gradients came."""
    names = {gradient.name for gradient in one.schedule.gradients}
    return names == {gradient.name for gradient in other.schedule.gradients}
