"""What a user should know of how well batch sizes were timed (torch)."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.profiling.timing import MOST_MISSING, BatchTiming

# All sizes got slower, or faster, by more than this: the machine drifts.
_DRIFT = 0.1
_DRIFT_STEPS = 9


def timing_notes(timings: Sequence[BatchTiming], error: float) -> tuple[str, ...]:
    """Returns what a user should know of the timings. Pure.

    Args:
        timings: of all sizes.
        error: the standard error that was asked for, as a fraction.
    """
    notes: list[str] = []
    for timing in timings:
        where = f"Batch {timing.batch}"
        if abs(timing.missing) > MOST_MISSING:
            notes.append(
                f"{where}: forward, backward and optimizer together differ from the wall time of "
                f"the loop by {timing.missing:+.0%}: time is spent outside of them."
            )
        if timing.error > error:
            notes.append(
                f"{where}: the median of {timing.steps} steps is known to {timing.error:.1%} only "
                f"({error:.1%} was asked for); give it more seconds, or a quiet machine."
            )
        if timing.disturbed > 0.01:
            notes.append(
                f"{where}: {timing.disturbed:.0%} of the steps took over twice the median."
            )
    # Of a few steps, first and last thirds are one or two: those say nothing of a drift.
    drifts = [timing.drift for timing in timings if timing.steps >= _DRIFT_STEPS]
    # All sizes were timed in turn: what touches them all is the machine's, not the model's.
    if len(drifts) == len(timings) > 0 and (min(drifts) > _DRIFT or max(drifts) < -_DRIFT):
        notes.append(
            f"Steps of all sizes took {min(drifts, key=abs):+.0%} longer in the end than in the "
            "beginning: the machine drifts (throttling, or other work)."
        )
    return tuple(notes)
