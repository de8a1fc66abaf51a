"""How the transfers of one iteration share the network: the event queue, one configuration.

Two rules, both such that a transfer alone takes exactly the allreduce model's `T(s)`. Its work is
`w = 2 s (n−1) / n` bus bytes; of its `T(s)` it keeps the line busy for `L = w / b_cap` and waits
for latencies in the rest, `A = T(s) − L`.

* `slots`: transfers are admitted in the order of issue to at most `slots` slots. One slot is NCCL
  under DistributedDataParallel; gloo has as many as it has threads. A ring moves in hops, each of
  which waits for its latency, then for the line: behind what others have there, as customers of a
  closed queueing network do at its one server. So transfers in flight take

      R_i = L_i + Σ_{j ≠ i} Q_j L_j   at the line,   Q_j = R_j / (A_j + R_j)   of their time,

  and progress at `1 / (A_i + R_i)` (approximate mean value analysis: Bard 1979, Schweitzer 1979).
  Few transfers hide each other's latencies, many fill the line, and small ones wait behind large
  ones. A transfer that was measured above `b_cap` (a short one that a token bucket lets pass at
  once, or noise) counts as what the line carries in `T(s)`: one lucky size must not widen the line
  for all.
* `paper` (Luo et al. 2022, section 4.3): every transfer starts at once. On a start the counter `c`
  and the aggregate `b_agg` of the transfers' own bus bandwidths grow, on a finish they fall; each
  transfer moves at `b_bus` while `b_agg ≤ b_cap`, else at `min(b_bus, b_cap / c)`.

This is the readable reference, and it makes the timelines; `lockstep.py` computes the same for
many configurations at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Newton's steps for the queue on the line: until one changes it by less (the next would by the
# square of that), and how many at most.
_STEP = 1e-8
_MOST_STEPS = 60


@dataclass(frozen=True)
class Exchange:
    """When the transfers of one iteration ran.

    Attributes:
        start_s: (K,) admission of each transfer; seconds on the clock of the ready times.
        end_s: (K,) end of each transfer.
    """

    start_s: FloatArray
    end_s: FloatArray

    @property
    def last_end_s(self) -> float:
        """End of the last transfer."""
        return float(self.end_s.max())

    @property
    def last_busy_start_s(self) -> float:
        """Start of the last span without a pause in which transfers run.

        What happened before it cannot have delayed the end: from here on, communication decides.
        """
        order = np.argsort(self.start_s, kind="stable")
        ends_before = np.maximum.accumulate(self.end_s[order])[:-1]
        starts = self.start_s[order]
        pauses = np.flatnonzero(starts[1:] > ends_before)
        return float(starts[pauses[-1] + 1] if pauses.size else starts[0])


def capacity_for(bus_bytes: FloatArray, alone_s: FloatArray, capacity: float) -> float:
    """Returns the paper's `b_cap`: the line rate, or more where one transfer alone gets more.

    Keeps a lone transfer at exactly `T(s)` when a measured point exceeds the plateau.
    """
    return float(max(capacity, (bus_bytes / alone_s).max()))


def line_seconds(
    bus_bytes: FloatArray, alone_s: FloatArray, capacity: float | FloatArray
) -> FloatArray:
    """Returns how long transfers in slots keep the line busy: `L`, at most `T(s)`.

    Args:
        bus_bytes: bytes of each.
        alone_s: seconds that each takes alone.
        capacity: bytes per second that the line carries; broadcast against the others.
    """
    return np.minimum(bus_bytes / capacity, alone_s)


def progress_rates(wait_s: FloatArray, line_s: FloatArray) -> FloatArray:
    """Returns (J, R) what part of itself each transfer in flight gets done per second.

    With `S = Σ_j Q_j L_j`, each `Q_i` is the smaller root of `L Q² − (A + 2L + S) Q + L + S`, so
    all is said by one number per column: the root of `S − Σ_i Q_i(S) L_i`, which is convex in `S`
    and not negative at `Σ L`. Newton's method falls from there to the root.

    Args:
        wait_s: (J, R) latencies `A` of the transfers of each column; infinite where there is none.
        line_s: (J, R) their seconds on the line `L`, above 0; 0 where there is none.
    """
    queued_s = line_s.sum(axis=0)
    for _ in range(_MOST_STEPS):
        at_line, root = _parts_at_the_line(wait_s, line_s, queued_s)
        excess = queued_s - (at_line * line_s).sum(axis=0)
        step = excess / (1 - (line_s * (1 - at_line) / root).sum(axis=0))
        queued_s = queued_s - step
        if (np.abs(step) <= _STEP * queued_s).all():
            break
    at_line, _ = _parts_at_the_line(wait_s, line_s, queued_s)
    return 1 / (wait_s + line_s + (queued_s - at_line * line_s))


def _parts_at_the_line(
    wait_s: FloatArray, line_s: FloatArray, queued_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns (J, R) each `Q` for a given `S`, and the root of its equation's discriminant."""
    linear = wait_s + 2 * line_s + queued_s
    root = np.sqrt(linear**2 - 4 * line_s * (line_s + queued_s))
    return 2 * (line_s + queued_s) / (linear + root), root


def share_slots(
    ready_s: FloatArray,
    alone_s: FloatArray,
    line_s: FloatArray,
    slots: int | None,
) -> Exchange:
    """Runs transfers through at most `slots` slots.

    Args:
        ready_s: (K,) when each transfer can start, seconds; issued in this order, so a transfer
            waits for the earlier ones to be issued.
        alone_s: (K,) seconds that each takes alone, `T(s)`.
        line_s: (K,) seconds of these on the line; see `line_seconds`.
        slots: transfers at a time; None: unlimited.
    """
    count = len(ready_s)
    limit = count if slots is None else slots
    issue_s = np.maximum.accumulate(ready_s)
    start_s, end_s = np.zeros(count), np.zeros(count)
    left: dict[int, float] = {}
    now = 0.0
    issued = 0
    while issued < count or left:
        flying = list(left)
        rates = progress_rates((alone_s - line_s)[flying, None], line_s[flying, None])[:, 0]
        ends_in = [left[k] / rate for k, rate in zip(flying, rates, strict=True)]
        step = min(ends_in, default=np.inf)
        admits = issued < count and len(left) < limit and issue_s[issued] - now <= step
        if admits:
            step = max(float(issue_s[issued]) - now, 0.0)
        now += step
        for k, rate in zip(flying, rates, strict=True):
            left[k] -= step * rate
        if admits:
            start_s[issued] = now
            left[issued] = 1.0
            issued += 1
        else:
            ended = flying[int(np.argmin(ends_in))]
            end_s[ended] = now
            del left[ended]
    return Exchange(start_s, end_s)


def share_paper(
    ready_s: FloatArray,
    alone_s: FloatArray,
    bus_bytes: FloatArray,
    capacity: float,
) -> Exchange:
    """Runs transfers under the paper's sharing rule; arguments as in `share_slots`."""
    count = len(ready_s)
    own_rate = bus_bytes / alone_s
    cap = capacity_for(bus_bytes, alone_s, capacity)
    order = [int(k) for k in np.argsort(ready_s, kind="stable")]
    end_s = np.zeros(count)
    left: dict[int, float] = {}
    now = 0.0
    started = 0
    while started < count or left:
        aggregate = sum(own_rate[k] for k in left)
        share = np.inf if aggregate <= cap * (1 + 1e-12) else cap / len(left)
        rates = {k: min(float(own_rate[k]), share) for k in left}
        steps = [left[k] / rates[k] for k in left]
        if started < count:
            steps.append(float(ready_s[order[started]]) - now)
        step = min(steps)
        arrival = started < count and float(ready_s[order[started]]) - now <= step
        finished = [k for k in left if left[k] / rates[k] <= step]
        now += step
        for k in left:
            left[k] -= rates[k] * step
        for k in finished:
            end_s[k] = now
            del left[k]
        if arrival:
            k = order[started]
            left[k] = float(bus_bytes[k])
            started += 1
    return Exchange(ready_s.copy(), end_s)
