"""The exchange of many configurations at once.

The same two rules as `sharing.py`, which is the reference. One slot has a closed form; several
slots and the paper's rule process one event of every configuration per step, in lockstep: all
configurations have the same transfers, hence the same number of events.

Arguments are (R, K): one row per configuration, one column per transfer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srifty.simulator.sharing import progress_rates

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Ends(NamedTuple):
    """When the exchange of each configuration ends.

    Attributes:
        end_s: (R,) end of the last transfer.
        last_busy_start_s: (R,) start of the last span without a pause between transfers.
    """

    end_s: FloatArray
    last_busy_start_s: FloatArray


def one_slot(ready_s: FloatArray, alone_s: FloatArray) -> Ends:
    """Returns the ends with one transfer at a time, in the order of issue.

    `end = max_k (r_k + Σ_{j ≥ k} T_j)` with `r_k = max_{j ≤ k} ready_j`; the k that attains the
    maximum starts the last busy span.

    Args:
        ready_s: (R, K) when each transfer can start.
        alone_s: (R, K) seconds that each takes alone.
    """
    issue_s = ready_s.copy()
    rest_s = alone_s.copy()
    for k in range(1, issue_s.shape[1]):
        np.maximum(issue_s[:, k], issue_s[:, k - 1], out=issue_s[:, k])
    for k in range(issue_s.shape[1] - 2, -1, -1):
        rest_s[:, k] += rest_s[:, k + 1]
    ends = issue_s + rest_s
    binding = ends.argmax(axis=1)
    rows = np.arange(len(ends))
    return Ends(ends[rows, binding], issue_s[rows, binding])


def some_slots(
    ready_s: FloatArray, alone_s: FloatArray, line_s: FloatArray, slots: int | None
) -> Ends:
    """Returns the ends with at most `slots` transfers at a time (None: unlimited).

    Args:
        ready_s: (R, K) when each transfer can start.
        alone_s: (R, K) seconds that each takes alone.
        line_s: (R, K) seconds of these on the line.
        slots: transfers at a time.
    """
    rows, count = ready_s.shape
    width = count if slots is None else min(slots, count)
    issue_s = np.maximum.accumulate(ready_s, axis=1).T.copy()
    wait_of, line_of = (alone_s - line_s).T.copy(), line_s.T.copy()

    # By slot; an empty one holds a transfer that never moves and is in nobody's way.
    left = np.full((width, rows), np.inf)
    wait, line = np.full((width, rows), np.inf), np.zeros((width, rows))
    occupied = np.zeros(rows, dtype=np.int64)
    issued = np.zeros(rows, dtype=np.int64)
    now = np.zeros(rows)
    busy_start = np.zeros(rows)
    columns = np.arange(rows, dtype=np.int64)
    # Each transfer brings two events: it is admitted, and it ends.
    for _ in range(2 * count):
        used = int(occupied.max())
        rates = progress_rates(wait[:used], line[:used])
        ends_in = np.full((max(used, 1), rows), np.inf)
        np.divide(left[:used], rates, out=ends_in[:used], where=rates > 0)
        next_slot = ends_in.argmin(axis=0)
        end_step = ends_in[next_slot, columns]
        waiting = issue_s[np.minimum(issued, count - 1), columns]
        can_admit = (issued < count) & (occupied < width)
        admit_step = np.where(can_admit, np.maximum(waiting - now, 0.0), np.inf)
        admits = admit_step <= end_step
        step = np.where(admits, admit_step, end_step)

        now += step
        left[:used] -= rates * step

        # The last of the slots in use moves to where one became free, so that these stay in front.
        at = columns[~admits]
        freed, last = next_slot[at], occupied[at] - 1
        for state, empty in ((left, np.inf), (wait, np.inf), (line, 0.0)):
            state[freed, at] = state[last, at]
            state[last, at] = empty
        occupied[at] = last

        at = columns[admits]
        slot = occupied[at]
        left[slot, at] = 1.0
        wait[slot, at], line[slot, at] = wait_of[issued[at], at], line_of[issued[at], at]
        # A transfer that found the line idle, and came later than it could have, ends a pause.
        idle = (slot == 0) & (step[at] > 0)
        busy_start[at] = np.where(idle | (issued[at] == 0), now[at], busy_start[at])
        occupied[at] += 1
        issued[at] += 1
    return Ends(now, busy_start)


def paper_sharing(
    ready_s: FloatArray,
    alone_s: FloatArray,
    bus_bytes: FloatArray,
    capacity: FloatArray,
    size_class: IntArray,
) -> Ends:
    """Returns the ends under the paper's rule.

    Transfers of one size always move at the same rate, so all that is kept per size is how many
    bytes a transfer of that size has been served since the start (`served`); a transfer that began
    at `served = v` ends at `served = v + w`, first come first.

    Args:
        ready_s: (R, K) when each transfer starts.
        alone_s: (R, K) seconds that each takes alone.
        bus_bytes: (R, K) work of each.
        capacity: (R,) bus bandwidth that the line supports, bytes per second.
        size_class: (K,) which transfers have the same size, numbered from 0 without gaps.
    """
    rows, count = ready_s.shape
    classes = int(size_class.max()) + 1
    first = np.array([int(np.flatnonzero(size_class == c)[0]) for c in range(classes)])
    work = np.ascontiguousarray(bus_bytes[:, first])
    own_rate = np.ascontiguousarray(work / alone_s[:, first])
    cap = np.maximum(capacity, own_rate.max(axis=1))
    limit = cap * (1 + 1e-12)
    # All rows start their transfers in the same order: ready times come from the same fractions of
    # the backward pass.
    starts = np.concatenate(
        [np.maximum.accumulate(ready_s, axis=1), np.full((rows, 1), np.inf)], axis=1
    )
    # Ends in units of `served`, per row and class first come first: row r, class c, queue place q
    # lie at goals[(r * classes + c) * places + q]. Flat indices are several times faster here.
    places = int(np.bincount(size_class).max()) + 1
    goals = np.full(rows * classes * places, np.inf)
    served = np.zeros((rows, classes))
    goal = np.full((rows, classes), np.inf)
    head = np.zeros(rows * classes, dtype=np.int64)
    tail = np.zeros(rows * classes, dtype=np.int64)
    flat_served, flat_goal = served.reshape(-1), goal.reshape(-1)
    flat_work, flat_rate, flat_starts = work.reshape(-1), own_rate.reshape(-1), starts.reshape(-1)

    active = np.zeros(rows)
    aggregate = np.zeros(rows)
    started = np.zeros(rows, dtype=np.int64)
    now = np.zeros(rows)
    busy_start = np.zeros(rows)
    row = np.arange(rows, dtype=np.int64)
    row_base = row * classes
    for _ in range(2 * count):
        share = np.where(aggregate <= limit, np.inf, cap / np.maximum(active, 1))
        rate = np.minimum(own_rate, share[:, None])
        finish_steps = (goal - served) / rate
        finisher = row_base + finish_steps.argmin(axis=1)
        finish_step = finish_steps.reshape(-1)[finisher]
        start_step = flat_starts[row * (count + 1) + started] - now
        finishes = finish_step <= start_step
        step = np.minimum(finish_step, start_step)
        now += step
        rate *= step[:, None]
        served += rate

        at = np.flatnonzero(finishes)
        queue = finisher[at]
        head[queue] += 1
        flat_goal[queue] = goals[queue * places + head[queue]]
        active[at] -= 1
        aggregate[at] -= flat_rate[queue]

        at = np.flatnonzero(~finishes)
        queue = row_base[at] + size_class[started[at]]
        goals[queue * places + tail[queue]] = flat_served[queue] + flat_work[queue]
        flat_goal[queue] = goals[queue * places + head[queue]]
        tail[queue] += 1
        idle = active[at] == 0
        # A start at the very moment at which the last transfer ended is no pause.
        paused = idle & ((step[at] > 0) | (started[at] == 0))
        busy_start[at] = np.where(paused, now[at], busy_start[at])
        aggregate[at] = np.where(idle, 0.0, aggregate[at]) + flat_rate[queue]
        active[at] += 1
        started[at] += 1
    return Ends(now, busy_start)
