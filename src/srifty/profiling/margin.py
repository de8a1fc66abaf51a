"""How much memory a batch needs beyond what was seen of it, and what a larger one would need. Pure.

A batch that fits exactly may break at step 1,000: peaks differ from step to step, and something
else allocates. The margin is on top of the largest peak that was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from srifty.profiling.outcome import Outcome
from srifty.units import MIB

LEAST_MARGIN = 0.03
"""Share of the measured peak that must stay free, however steady the peaks were."""

UNMEASURED_MARGIN = 0.05
"""Share of the largest batch that is given up where memory is not measured."""

# What a handful of steps does not show of the spread that they come from.
_UNSEEN_SPREAD = 0.01
# Growth below this is noise of the process's own memory.
_NOISE_BYTES = 16 * MIB
# Memory of pairwise losses grows with the square of the batch; nothing sane beyond the cube.
_LARGEST_EXPONENT = 3.0


def margin_of(fits: Sequence[Outcome]) -> float:
    """Returns the share of a measured peak that must stay free on top of it.

    The largest spread of any trial's peaks from step to step, plus 1 point for what few steps do
    not show; at least `LEAST_MARGIN`.
    """
    spread = max((outcome.peak_spread for outcome in fits), default=0.0)
    return max(LEAST_MARGIN, spread + _UNSEEN_SPREAD)


def usable_bytes(memory_bytes: int | None, largest: Outcome, failed_at: int | None) -> float | None:
    """Returns the memory that trials can really use; None where nothing is known.

    What failed at `failed_at` samples needed at most peak · failed_at / batch of the largest that
    fits: with a part that does not depend on the batch, less. Fragments, the context and other
    processes take the difference to the device's memory.

    Args:
        memory_bytes: the device's memory, where known.
        largest: the largest batch that fits.
        failed_at: the smallest that ran out of the device's memory; None where none did.
    """
    if failed_at is None or largest.peak_bytes is None:
        return memory_bytes
    shown = largest.peak_bytes * failed_at / largest.batch
    return shown if memory_bytes is None else min(memory_bytes, shown)


def largest_with_margin(peaks: Mapping[int, int], allowed_bytes: float) -> tuple[int, int]:
    """Returns the largest batch below which all peaks are allowed, and where to look for a larger.

    Args:
        peaks: largest peak by batch, of all batches that fit.
        allowed_bytes: the most that a peak may be.

    Returns:
        the largest batch such that it and every smaller one is allowed, 0 where none is; and the
        batch, by a straight line to the first that is not allowed, that should just be; the same
        batch where there is none between.
    """
    safe = 0
    for batch in sorted(peaks):
        if peaks[batch] <= allowed_bytes:
            safe = batch
            continue
        if safe == 0:
            return 0, 0
        share = (allowed_bytes - peaks[safe]) / (peaks[batch] - peaks[safe])
        return safe, min(safe + int(share * (batch - safe)), batch - 1)
    return safe, safe


def predict_host_bytes(fits: Mapping[int, Outcome], batch: int) -> float | None:
    """Returns the host's memory that a trial of a larger batch would need; None where unknown.

    What came on top of the smallest batch's peak is taken to grow by a power of the batch, found
    from the largest batch and one of at most half of it, and at least in proportion.

    Args:
        fits: outcomes by batch, of batches that fit.
        batch: larger than all of them.
    """
    known = {size: one.host_peak_bytes for size, one in fits.items() if one.host_peak_bytes}
    below = sorted(size for size in known if size < batch)
    if len(below) < 2:
        return None
    base, last = known[below[0]], below[-1]
    halves = [size for size in below[1:] if 2 * size <= last]
    extra = max(known[last] - base, 0)
    exponent = 1.0
    if halves:
        before = halves[-1]
        ratio = max(extra, _NOISE_BYTES) / max(known[before] - base, _NOISE_BYTES)
        exponent = min(max(math.log(ratio) / math.log(last / before), 1.0), _LARGEST_EXPONENT)
    return base + extra * (batch / last) ** exponent
