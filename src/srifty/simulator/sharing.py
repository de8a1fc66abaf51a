"""How the transfers of one iteration share the network: the event queue, one configuration.

Two rules, both with work in bus bytes `w = 2 s (n−1) / n`, and both such that a transfer alone
takes exactly the allreduce model's `T(s)`:

* `slots`: transfers are admitted in the order of issue to at most `slots` slots. Each first waits
  its own start-up latency `α = T(s) − w / b_cap`, during which it uses no bandwidth, then the
  running ones share `b_cap` evenly. One slot is NCCL under DistributedDataParallel; gloo has as
  many as it has threads. A transfer that was measured above `b_cap` (a short one that a token
  bucket lets pass at once, or noise) counts as what the line carries in `T(s)`: one lucky size must
  not widen the line for all.
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


def slot_work(
    bus_bytes: FloatArray, alone_s: FloatArray, capacity: float | FloatArray
) -> FloatArray:
    """Returns what transfers in slots have to move: at most what the line carries in `T(s)`.

    Args:
        bus_bytes: bytes of each.
        alone_s: seconds that each takes alone.
        capacity: bytes per second that the line carries; broadcast against the others.
    """
    return np.minimum(bus_bytes, capacity * alone_s)


def share_slots(
    ready_s: FloatArray,
    alone_s: FloatArray,
    bus_bytes: FloatArray,
    capacity: float,
    slots: int | None,
) -> Exchange:
    """Runs transfers through at most `slots` slots.

    Args:
        ready_s: (K,) when each transfer can start, seconds; issued in this order, so a transfer
            waits for the earlier ones to be issued.
        alone_s: (K,) seconds that each takes alone, `T(s)`.
        bus_bytes: (K,) work of each, bus bytes.
        capacity: bytes per second of bus bandwidth that the line supports.
        slots: transfers at a time; None: unlimited.
    """
    count = len(ready_s)
    limit = count if slots is None else slots
    issue_s = np.maximum.accumulate(ready_s)
    work = slot_work(bus_bytes, alone_s, capacity)
    latency_s = np.maximum(alone_s - work / capacity, 0.0)
    start_s = np.zeros(count)
    end_s = np.zeros(count)
    latency_left: dict[int, float] = {}
    bytes_left: dict[int, float] = {}
    now = 0.0
    issued = 0
    while issued < count or latency_left or bytes_left:
        while issued < count and issue_s[issued] <= now:
            if len(latency_left) + len(bytes_left) >= limit:
                break
            start_s[issued] = now
            latency_left[issued] = float(latency_s[issued])
            issued += 1
        rate = capacity / len(bytes_left) if bytes_left else 0.0
        steps = list(latency_left.values()) + [left / rate for left in bytes_left.values()]
        has_room = len(latency_left) + len(bytes_left) < limit
        if issued < count and has_room:
            steps.append(float(issue_s[issued]) - now)
        step = min(steps)
        latency_done = [k for k, left in latency_left.items() if left <= step]
        bytes_done = [k for k, left in bytes_left.items() if left / rate <= step]
        now += step
        for k in latency_left:
            latency_left[k] -= step
        for k in bytes_left:
            bytes_left[k] -= rate * step
        for k in bytes_done:
            end_s[k] = now
            del bytes_left[k]
        for k in latency_done:
            del latency_left[k]
            bytes_left[k] = float(work[k])
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
