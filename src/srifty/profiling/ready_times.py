"""What ready times at one batch size say of another, part of the work being for weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from srifty.core.profile import Gradient, GradientSchedule
from srifty.errors import InputError

if TYPE_CHECKING:
    from srifty.profiling.gradients import GradientTimes


def schedule_at(measured: Sequence[GradientTimes], batch: int) -> GradientSchedule:
    """Returns the gradients of a batch size from those of others.

    Each gradient's seconds into the backward pass follow a straight line in the batch between the
    two nearest sizes that were measured, as part of them is for the weights alone; beyond the ends
    the nearest size's fractions hold.

    Args:
        measured: one workload at one or more batch sizes.
        batch: samples in one pass.

    Raises:
        InputError: nothing was measured, or not the same gradients each time.
    """
    if not measured:
        raise InputError("ready times need at least one batch size that was measured")
    below = max((t for t in measured if t.batch <= batch), key=lambda t: t.batch, default=None)
    above = min((t for t in measured if t.batch >= batch), key=lambda t: t.batch, default=None)
    low = below or above or measured[0]
    high = above or low
    _require_same(low.schedule, high.schedule)
    if low is high:
        return low.schedule
    share = (batch - low.batch) / (high.batch - low.batch)
    low_s, high_s = (1 - share) * low.backward_s, share * high.backward_s
    later = {gradient.name: gradient.ready for gradient in high.schedule.gradients}
    found = [
        Gradient(
            gradient.name,
            gradient.bytes,
            min((low_s * gradient.ready + high_s * later[gradient.name]) / (low_s + high_s), 1.0),
        )
        for gradient in low.schedule.gradients
    ]
    # Equal times keep their order: sorting is stable.
    return GradientSchedule(tuple(sorted(found, key=lambda gradient: gradient.ready)))


def ready_error(predicted: GradientSchedule, observed: GradientSchedule) -> float:
    """Returns the mean absolute difference of ready times, as a fraction of the backward pass.

    Raises:
        InputError: the schedules are of different gradients, or of none.
    """
    _require_same(predicted, observed)
    known = {gradient.name: gradient.ready for gradient in predicted.gradients}
    return sum(abs(known[g.name] - g.ready) for g in observed.gradients) / len(known)


def _require_same(one: GradientSchedule, other: GradientSchedule) -> None:
    names = {gradient.name for gradient in one.gradients}
    if not names or names != {gradient.name for gradient in other.gradients}:
        raise InputError("ready times can only be compared between schedules of one model")
