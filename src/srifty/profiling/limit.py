"""Which batches fit: the search for the smallest and largest, over trials that it is given. Pure.

Sizes double from the smallest usable one, so that every power of two up to the maximum is run; then
the gap to what did not fit is halved. Nothing is concluded about a size that was not run: memory
need not grow with the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from srifty.core.profile import MaxBatchEvidence
from srifty.profiling.margin import (
    UNMEASURED_MARGIN,
    largest_with_margin,
    margin_of,
    predict_host_bytes,
    usable_bytes,
)
from srifty.profiling.outcome import Bounds, Outcome, Verdict
from srifty.units import format_bytes, format_duration

Try = Callable[[int], Outcome]

RESOLUTION = 0.01
"""The gap between the largest batch that fits and the next one tried, as a share of the batch."""

# Sizes tried below the raw maximum until one keeps the margin; each comes closer.
_SAFE_TRIALS = 4
# Less than this share of the peak left behind by failed trials moves the limit by less than that.
_LEFT_OVER = 0.01


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """Which batches fit, and how that is known.

    Attributes:
        min_batch: the smallest usable batch; 0 where none is.
        raw_max: the largest that was run in full; 0 where none was.
        safe_max: the largest that was run and keeps the margin, as all run below it do; 0: none.
        margin: share of the measured peak that stays free at `safe_max`; where memory is not
            measured, the share of `raw_max` that is given up.
        measured: whether memory was measured.
        reason: what ended the search, such as `limit: out of memory at 89`.
        evidence: `measured`: a larger batch ran out of the device's memory, and the gap is closed;
            else `stopped-at`.
        outcomes: every size, in the order in which it was tried.
        notes: what a user should know, in full sentences.
    """

    min_batch: int
    raw_max: int
    safe_max: int
    margin: float
    measured: bool
    reason: str
    evidence: MaxBatchEvidence
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]

    @property
    def is_usable(self) -> bool:
        """Whether any batch fits."""
        return self.raw_max > 0

    @property
    def max_batch(self) -> int:
        """What a profile says: the safe maximum; the raw one where none keeps the margin."""
        return self.safe_max or self.raw_max

    @property
    def verified_batches(self) -> tuple[int, ...]:
        """The batches up to `max_batch` that were run in full, ascending."""
        run = {outcome.batch for outcome in self.outcomes if outcome.fits}
        return tuple(sorted(batch for batch in run if batch <= self.max_batch))

    @property
    def peak_memory_bytes(self) -> dict[int, int]:
        """Largest peak by batch, of all batches that fit and were measured."""
        peaks = {one.batch: one.peak_bytes for one in self.outcomes if one.fits}
        return {batch: peak for batch, peak in sorted(peaks.items()) if peak is not None}


def find_limit(
    try_batch: Try,
    bounds: Bounds,
    *,
    least_steps: int = 1,
    seconds: float = math.inf,
    resolution: float = RESOLUTION,
    on_trial: Callable[[Outcome], None] | None = None,
) -> BatchLimit:
    """Returns which batches fit.

    Args:
        try_batch: trains some full steps at exactly that batch and says what happened.
        bounds: what limits the batches.
        least_steps: a trial with fewer full steps shows nothing and ends the search.
        seconds: how long all trials together may take; one that would not end in time is not tried.
        resolution: gap to the next size that does not fit, as a share of the batch; 0: none.
        on_trial: told of every outcome.

    Returns:
        the limit; `is_usable` is false where no batch fits, and `reason` says why.
    """
    search = _Search(try_batch, bounds, least_steps, seconds, resolution, on_trial)
    return search.run()


class _Search:
    """What was tried so far.

    Attributes:
        fits: outcomes that fit, by batch.
        outcomes: all, in order.
        stop: the outcome that bounds the maximum from above; None: the bounds do.
    """

    def __init__(
        self,
        try_batch: Try,
        bounds: Bounds,
        least_steps: int,
        seconds: float,
        resolution: float,
        on_trial: Callable[[Outcome], None] | None,
    ) -> None:
        self._try_batch = try_batch
        self._bounds = bounds
        self._least_steps = least_steps
        self._seconds = seconds
        self._resolution = resolution
        self._on_trial = on_trial
        self.fits: dict[int, Outcome] = {}
        self.outcomes: list[Outcome] = []
        self.stop: Outcome | None = None

    def run(self) -> BatchLimit:
        least = self._smallest()
        raw = self._narrowed(self._grown(least)) if least else 0
        measured = bool(raw) and self._is_measured(raw)
        safe = (self._safe(raw) if measured else self._reduced(raw)) if raw else 0
        margin = margin_of(list(self.fits.values())) if measured else UNMEASURED_MARGIN
        return BatchLimit(
            min_batch=least,
            raw_max=raw,
            safe_max=safe,
            margin=margin,
            measured=measured,
            reason=self._reason(),
            evidence="measured" if raw and self._is_shown(raw) else "stopped-at",
            outcomes=tuple(self.outcomes),
            notes=tuple(self._notes(least, raw, safe, margin, measured=measured)),
        )

    def _smallest(self) -> int:
        """Returns the smallest usable batch; 0 where none is, and `stop` says why."""
        # BatchNorm cannot train on one value per channel; that says nothing about memory.
        for batch in (1, 2):
            if batch > self._bounds.most:
                break
            outcome = self._tried(batch)
            if outcome.fits:
                return batch
            self.stop = outcome
            if outcome.verdict is not Verdict.TOO_SMALL:
                break
        return 0

    def _grown(self, least: int) -> int:
        """Returns the last of the doubled sizes that fits."""
        batch = least
        self.stop = None
        while batch < self._bounds.most:
            outcome = self._tried(min(2 * batch, self._bounds.most))
            if not outcome.fits:
                self.stop = outcome
                break
            batch = outcome.batch
        return batch

    def _narrowed(self, low: int) -> int:
        """Returns the largest size that fits, once the gap to what does not is small enough."""
        while (
            self.stop is not None
            and self.stop.verdict.is_memory
            and self.stop.batch - low > self._gap(low)
        ):
            outcome = self._tried((low + self.stop.batch) // 2)
            if outcome.fits:
                low = outcome.batch
            else:
                self.stop = outcome
        return low

    def _gap(self, batch: int) -> int:
        return max(1, int(self._resolution * batch))

    def _is_shown(self, raw: int) -> bool:
        """Returns whether the device's memory, and nothing else, sets the maximum."""
        return (
            self.stop is not None
            and self.stop.verdict is Verdict.OUT_OF_MEMORY
            and self.stop.batch - raw <= self._gap(raw)
            and not self._left_over_bytes()
        )

    def _is_measured(self, raw: int) -> bool:
        peaks = [outcome.peak_bytes for outcome in self.fits.values()]
        return None not in peaks and self._usable(raw) is not None

    def _usable(self, raw: int) -> float | None:
        failed = self.stop is not None and self.stop.verdict is Verdict.OUT_OF_MEMORY
        failed_at = self.stop.batch if self.stop is not None and failed else None
        return usable_bytes(self._bounds.memory_bytes, self.fits[raw], failed_at)

    def _safe(self, raw: int) -> int:
        """Returns the largest size that was run and keeps the margin; 0 where none does."""
        usable = self._usable(raw) or 0
        trials = _SAFE_TRIALS
        while True:
            # Every trial may show more spread than those before it.
            allowed = usable / (1 + margin_of(list(self.fits.values())))
            peaks = {size: one.peak_bytes or 0 for size, one in self.fits.items()}
            safe, wanted = largest_with_margin(peaks, allowed)
            if wanted <= safe or trials == 0 or not self._tried(wanted).fits:
                return safe
            trials -= 1

    def _reduced(self, raw: int) -> int:
        """Returns the largest size that was run after a share of the maximum is given up."""
        wanted = int(raw * (1 - UNMEASURED_MARGIN))
        if wanted > min(self.fits) and wanted not in self.fits:
            self._tried(wanted)
        return max((size for size in self.fits if size <= wanted), default=0)

    def _tried(self, batch: int) -> Outcome:
        outcome = self._foreseen(batch) or self._try_batch(batch)
        if outcome.fits and outcome.steps < self._least_steps:
            outcome = replace(
                outcome,
                verdict=Verdict.OTHER_ERROR,
                message=f"the trial did {outcome.steps} of {self._least_steps} training steps",
            )
        self.outcomes.append(outcome)
        if outcome.fits:
            self.fits[batch] = outcome
        if self._on_trial is not None:
            self._on_trial(outcome)
        return outcome

    def _foreseen(self, batch: int) -> Outcome | None:
        """Returns the outcome of a trial that is not begun: it would take too much."""
        if not self.fits:
            return None
        spent_s = sum(outcome.seconds for outcome in self.outcomes)
        last = self.fits[max(self.fits)]
        # What the quickest trial took is start-up for the most part, and does not grow.
        grows_s = last.seconds - min(outcome.seconds for outcome in self.fits.values())
        needed_s = last.seconds + grows_s * max(batch / last.batch - 1.0, 0.0)
        if spent_s + needed_s > self._seconds:
            return Outcome(
                batch,
                Verdict.TOO_SLOW,
                f"not tried: it would take about {format_duration(needed_s)}, "
                f"{format_duration(max(self._seconds - spent_s, 0.0))} of "
                f"{format_duration(self._seconds)} are left",
            )
        needed, limit = predict_host_bytes(self.fits, batch), self._bounds.host_memory_bytes
        if batch > last.batch and needed is not None and limit is not None and needed > limit:
            return Outcome(
                batch,
                Verdict.NOT_TRIED,
                f"it would need about {format_bytes(needed)} of the host's memory, a trial may "
                f"have {format_bytes(limit)}",
            )
        return None

    def _reason(self) -> str:
        if self.stop is None:
            return f"limit: {self._bounds.most:,}, {self._bounds.most_from}"
        return f"limit: {self.stop.sentence}"

    def _notes(
        self, least: int, raw: int, safe: int, margin: float, *, measured: bool
    ) -> list[str]:
        if not raw:
            return [f"No batch fits: {self._reason()}."]
        notes = [f"The largest batch that was run is {raw:,}; {self._reason()}."]
        if least > 1:
            notes.append(f"The smallest usable batch is {least}: {self.outcomes[0].sentence}.")
        if not safe:
            notes.append(f"max_batch is {raw:,} without a margin: no batch leaves {margin:.1%}.")
        elif measured:
            room = f"there is room for {margin:.1%} more than its largest measured peak"
            notes.append(f"max_batch is {safe:,}: {room}.")
        else:
            share = f"{margin:.0%} of the largest batch are given up"
            notes.append(f"max_batch is {safe:,}: memory is not measured here, so {share}.")
        notes += [
            f"Memory does not grow evenly: {raw:,} samples fit, yet {outcome.sentence}."
            for outcome in self.outcomes
            if outcome.batch < raw and outcome.verdict is not Verdict.TOO_SMALL and not outcome.fits
        ]
        left = self._left_over_bytes()
        if left:
            notes.append(
                f"Trials that ran out of memory left {format_bytes(left)} behind, so that larger "
                "batches may fit than were found: isolate the trials."
            )
        return notes

    def _left_over_bytes(self) -> int:
        """Returns the memory that failed trials left behind; 0 where it is negligible."""
        left = sum(
            max(after.held_bytes - failed.held_bytes, 0)
            for failed, after in pairwise(self.outcomes)
            if failed.verdict is Verdict.OUT_OF_MEMORY
            and failed.held_bytes is not None
            and after.held_bytes is not None
        )
        peak = max((one.peak_bytes or 0 for one in self.outcomes), default=0)
        return left if left > _LEFT_OVER * peak else 0
