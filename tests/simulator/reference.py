"""The mean iteration time once more, written for reading: plain loops, one configuration.

Shares no code with `srifty.simulator`: it reads a simulator's latency curves, asks its allreduce
model, and does everything else by itself. A few constants belong to the definition and are taken
from there: the tail and the number of Gauss-Legendre nodes of the straggler integral, and how
finely the ready times are sampled where there are many transfers.

`benchmarks/planner_speed.py` checks its first rows against it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from statistics import NormalDist

import numpy as np

from srifty.simulator.convex import FEW_POINTS, MOST_LEVELS, TOLERANCE
from srifty.simulator.stragglers import _NODES as NODES
from srifty.simulator.stragglers import _TAIL as TAIL

_NODES, _WEIGHTS = (values.tolist() for values in np.polynomial.legendre.leggauss(NODES))
POSITIONS = [((t + 1) / 2) ** 2 for t in _NODES]
WEIGHTS = [w / 2 * (t + 1) for t, w in zip(_NODES, _WEIGHTS, strict=True)]
_NORMAL = NormalDist()


def reference_iteration_s(simulator, job, config) -> float:
    """Returns the mean iteration time of one configuration, seconds (integral noise only)."""
    sizes, fractions_of = transfers(job)
    workers = worker_groups(simulator, config, fractions_of)
    if str(simulator.law) == "paper":
        forward_s = slowest([(w.before_s, w.std * w.before_s, w.count) for w in workers])
        backward_s = slowest([(w.backward_s, w.std * w.backward_s, w.count) for w in workers])
        compute_s = forward_s + backward_s
        ready_s = [
            forward_s
            + (
                workers[0].ready[k] * backward_s
                if all(w.ready[k] == workers[0].ready[k] for w in workers)
                else slowest(
                    [
                        (w.ready[k] * w.backward_s, w.std * w.ready[k] * w.backward_s, w.count)
                        for w in workers
                    ]
                )
            )
            for k in range(len(sizes))
        ]
    else:
        compute_s = ready_time(workers, [1.0] * len(workers))
        ready_s = ready_times(workers, len(sizes))

    end_s = 0.0
    n = config.world_size
    if n > 1 and sizes:
        kinds = {group.offer.instance_type for group in config.groups}
        world, vms = np.array([n]), np.array([config.vms])
        per_kind = [
            simulator.allreduce.time_s(kind, world, vms, np.array(sizes))[0] for kind in kinds
        ]
        alone_s = [max(float(times[k]) for times in per_kind) for k in range(len(sizes))]
        capacities = [
            float(simulator.allreduce.bus_capacity(kind, world, vms)[0]) for kind in kinds
        ]
        capacity = min(capacities)
        work = [2 * size * (n - 1) / n for size in sizes]
        if n > 2 and max(capacities) > 1.05 * capacity:
            # A ring over unequal links: bytes take 1/0.91 of the slowest link's time.
            alone_s = [
                t + min(w / capacity, t) * (1 / 0.91 - 1)
                for t, w in zip(alone_s, work, strict=True)
            ]
            capacity *= 0.91
        if str(job.sync.sharing) == "paper":
            end_s = paper_end(ready_s, alone_s, work, capacity)
        elif job.sync.slots == 1:
            end_s = one_slot_end(ready_s, alone_s)
        else:
            line_s = [min(w / capacity, t) for w, t in zip(work, alone_s, strict=True)]
            end_s = slots_end(ready_s, alone_s, line_s, job.sync.slots)

    optimizer_s = max(w.optimizer_s for w in workers)
    return max(input_s(job, config), max(compute_s, end_s) + optimizer_s)


class Workers:
    """Equal workers."""

    def __init__(self, count, std, before_s, backward_s, optimizer_s, ready):
        self.count = count
        self.std = std
        self.before_s = before_s
        self.backward_s = backward_s
        self.optimizer_s = optimizer_s
        self.ready = ready


def worker_groups(simulator, config, fractions_of) -> list[Workers]:
    groups = []
    for group in config.groups:
        model = simulator.latency[group.offer.instance_type.gpu]
        least, extra = divmod(group.samples_per_vm, group.gpus_used)
        std = math.sqrt(model.step_std_fraction**2 + model.spatial_std_fraction**2)
        for local, per_vm in ((least, group.gpus_used - extra), (least + 1, extra)):
            if per_vm == 0:
                continue
            micro, larger = divmod(local, group.accumulation)
            passes = [micro + 1] * larger + [micro] * (group.accumulation - larger)
            before_s = curve(model.forward, passes[-1])
            for batch in passes[:-1]:
                before_s += curve(model.forward, batch) + curve(model.backward, batch)
            groups.append(
                Workers(
                    group.count * per_vm,
                    std,
                    before_s,
                    curve(model.backward, passes[-1]),
                    model.optimizer_s,
                    fractions_of(group.offer.instance_type.gpu, passes[-1]),
                )
            )
    return groups


def curve(curve_of_batch, batch: int) -> float:
    """A piecewise-linear latency at one batch."""
    knots, values = curve_of_batch.knots, curve_of_batch.latencies_s
    if batch <= knots[0]:
        return values[0] + curve_of_batch.left_slope_s * (batch - knots[0])
    if batch >= knots[-1]:
        return values[-1] + curve_of_batch.right_slope_s * (batch - knots[-1])
    upper = bisect_right(knots, batch)
    share = (batch - knots[upper - 1]) / (knots[upper] - knots[upper - 1])
    return values[upper - 1] + share * (values[upper] - values[upper - 1])


def ready_time(workers: list[Workers], fractions: list[float]) -> float:
    """When the slowest worker has done its fraction of its last backward pass."""
    times = []
    for w, fraction in zip(workers, fractions, strict=True):
        mean = w.before_s + fraction * w.backward_s
        times.append((mean, w.std * mean, w.count))
    return slowest(times)


def ready_times(workers: list[Workers], count: int) -> list[float]:
    """When each transfer is ready; where there are many and all workers agree on the fractions, as
    the simulator samples them."""
    fractions = workers[0].ready
    alike = all(w.ready == fractions for w in workers)
    if not alike or count <= FEW_POINTS or fractions[0] == fractions[-1]:
        return [ready_time(workers, [w.ready[k] for w in workers]) for k in range(count)]
    first, last = fractions[0], fractions[-1]
    for level in range(1, MOST_LEVELS + 1):
        width = (last - first) / 2**level
        values = [
            ready_time(workers, [first + m * width] * len(workers)) for m in range(2**level + 1)
        ]
        middles = range(1, 2**level, 2)
        gap = max((values[m - 1] + values[m + 1]) / 2 - values[m] for m in middles)
        if gap <= TOLERANCE * values[-1]:
            break
    ready_s = []
    for u in fractions:
        lower = min(int((u - first) / width), len(values) - 2)
        share = (u - first) / width - lower
        ready_s.append(values[lower] * (1 - share) + values[lower + 1] * share)
    return ready_s


def slowest(times: list[tuple[float, float, int]]) -> float:
    """E[max] of independent normals given as (mean, std, how many)."""
    lows, highs = [], []
    for mean, std, count in times:
        lows.append(mean + std * _NORMAL.inv_cdf(TAIL ** (1 / count)))
        highs.append(mean - std * _NORMAL.inv_cdf(-math.expm1(math.log1p(-TAIL) / count)))
    lo = max(lows)
    span = max(max(highs) - lo, 0.0)
    area = 0.0
    for position, weight in zip(POSITIONS, WEIGHTS, strict=True):
        x = lo + span * position
        product = 1.0
        for (mean, std, count), high in zip(times, highs, strict=True):
            if std > 0 and high > lo:  # else the group has ended below `lo`
                product *= (0.5 * math.erfc((mean - x) / (std * math.sqrt(2)))) ** count
        area += weight * product
    return lo + span * (1 - area)


def transfers(job):
    """Bytes of what one iteration sends, and (GPU model, micro-batch) → its ready fractions.

    Dense gradients of one element type in the order of readiness, all of which come.
    """
    known = [profile for profile in job.profiles if profile.gradients is not None]
    measured = [profile for profile in known if not profile.estimated]
    if not known:
        return [], lambda gpu, batch: []
    gradients = (measured or known)[0].gradients.gradients
    buckets, cap = [[]], job.sync.first_bucket_bytes
    for g in gradients:
        buckets[-1].append(g)
        if str(job.sync.mode) == "per-layer" or sum(b.bytes for b in buckets[-1]) >= cap:
            buckets.append([])
            cap = job.sync.bucket_bytes
    buckets = [bucket for bucket in buckets if bucket]

    def in_turn(ready):
        at, found = 0.0, []
        for bucket in buckets:
            at = max([at, *(ready[g.name] for g in bucket)])
            found.append(at)
        return found

    def fractions_of(gpu, batch):
        own = next((p.gradients for p in job.profiles if p.gpu == gpu and p.gradients), None)
        source = own.gradients if own and own.gradients[0].ready_at else gradients
        sizes = sorted(source[0].ready_at)
        if not sizes:
            return in_turn({g.name: g.ready for g in gradients})
        low = max((s for s in sizes if s <= batch), default=sizes[0])
        high = min((s for s in sizes if s >= batch), default=sizes[-1])
        share = math.log(batch / low) / math.log(high / low) if low < high else 0.0
        below, above = (in_turn({g.name: g.ready_at[s] for g in source}) for s in (low, high))
        return [a + share * (b - a) for a, b in zip(below, above, strict=True)]

    return [float(sum(g.bytes for g in bucket)) for bucket in buckets], fractions_of


def one_slot_end(ready_s, alone_s) -> float:
    """One transfer at a time, in order."""
    now = 0.0
    for ready, alone in zip(ready_s, alone_s, strict=True):
        now = max(now, ready) + alone
    return now


def slots_end(ready_s, alone_s, line_s, slots) -> float:
    """At most `slots` at a time; those in flight wait for latencies and, queued, for the line."""
    waiting = []
    for k, ready in enumerate(ready_s):
        waiting.append((max(ready, waiting[-1][0]) if waiting else ready, k))
    left: dict[int, float] = {}
    now = 0.0
    while waiting or left:
        took = whole_times({k: (alone_s[k] - line_s[k], line_s[k]) for k in left})
        first = min(left, key=lambda k: left[k] * took[k], default=None)
        step = math.inf if first is None else left[first] * took[first]
        if waiting and (slots is None or len(left) < slots) and waiting[0][0] - now <= step:
            step = max(waiting[0][0] - now, 0.0)
            first = None
        left = {k: part - step / took[k] for k, part in left.items() if k != first}
        if first is None:
            left[waiting.pop(0)[1]] = 1.0
        now += step
    return now


def whole_times(flying) -> dict[int, float]:
    """Seconds that transfers in flight take, by repeating R = L + Σ Q L, Q = R / (A + R)."""
    queue = dict.fromkeys(flying, 0.0)
    while True:
        total = sum(queue[k] * line for k, (_, line) in flying.items())
        at_line = {k: line + total - queue[k] * line for k, (_, line) in flying.items()}
        new = {k: at_line[k] / (wait + at_line[k]) for k, (wait, _) in flying.items()}
        if all(abs(new[k] - queue[k]) <= 1e-15 for k in flying):
            return {k: wait + at_line[k] for k, (wait, _) in flying.items()}
        queue = new


def paper_end(ready_s, alone_s, work, capacity) -> float:
    """Every transfer starts at once; above the capacity each gets at most an even share."""
    own = [w / t for w, t in zip(work, alone_s, strict=True)]
    cap = max(capacity, max(own))
    arrivals = sorted(zip(ready_s, range(len(ready_s)), strict=True), reverse=True)
    active: list[int] = []
    left: list[float] = []
    now = 0.0
    while arrivals or active:
        total = sum(own[k] for k in active)
        share = math.inf if total <= cap * (1 + 1e-12) else cap / len(active)
        rates = [min(own[k], share) for k in active]
        finish = min((b / r for b, r in zip(left, rates, strict=True)), default=math.inf)
        arrival = arrivals[-1][0] - now if arrivals else math.inf
        step = min(finish, arrival)
        stay = [b / r > step for b, r in zip(left, rates, strict=True)]
        left = [b - r * step for b, r in zip(left, rates, strict=True)]
        active = [k for k, stays in zip(active, stay, strict=True) if stays]
        left = [b for b, stays in zip(left, stay, strict=True) if stays]
        now += step
        if arrival <= step:
            k = arrivals.pop()[1]
            active.append(k)
            left.append(work[k])
    return now


def input_s(job, config) -> float:
    """What the slowest VM's loader needs for its samples; 0 where unknown."""
    slow = 0.0
    for group in config.groups:
        kind = group.offer.instance_type
        profile = next((p for p in job.profiles if p.gpu == kind.gpu), None)
        if profile is not None and profile.input_samples_per_s_per_vcpu is not None:
            rate = profile.input_samples_per_s_per_vcpu * kind.vcpus
            slow = max(slow, group.samples_per_vm / rate)
    return slow
