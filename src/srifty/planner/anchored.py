"""The search of Luo et al. 2022 (section 4.4) for large spaces: one integer program per anchor.

An *anchor* is a local batch of some instance type, and what it takes is the target latency. Each
type gets the largest local batch that meets the target (a binary search), the integer program

    min Σ VMs    subject to   Σ workers · batch = global batch,   quotas,   deadline,   budget

gives the counts, with the target for the iteration time; what it proposes is simulated once. The
best proposal is the plan. It need not be the best there is: fewest VMs is neither fastest nor
cheapest, and the exchange is not in the target. Kept for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from srifty.core.job import BatchRule, Job
from srifty.planner.evaluate import Candidates, Progress, forecast_splits
from srifty.planner.method import Method
from srifty.planner.space import SpaceRule, Splits
from srifty.planner.supply import TypeSupply
from srifty.planner.worker_times import WorkerTimes, worker_times
from srifty.simulator.predictor import Predictor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Anchors of one type where any local batch is allowed: an integer program takes milliseconds.
_MOST_ANCHORS = 64
_S_PER_HOUR = 3600.0


def anchored(
    job: Job,
    places: Sequence[Sequence[TypeSupply]],
    predictor: Predictor,
    rule: SpaceRule,
    progress: Progress | None = None,
) -> Candidates:
    """Returns the configurations that the scheme proposes, with their forecasts.

    Where no counts keep the limits even at the target latency, the fewest VMs without limits are
    proposed: they keep no limit either, but show how near it is.

    Args:
        job: what is trained.
        places: what can be had in each place; a configuration stays in one of them.
        predictor: forecasts iterations; one worker alone gives the latencies of the anchors.
        rule: which local batches are allowed.
        progress: called with (done, all) places.
    """
    splits: list[Splits] = []
    for done, supplies in enumerate(places):
        splits.append(_proposals(job, supplies, predictor, rule))
        if progress is not None:
            progress(done + 1, len(places))
    found = forecast_splits(job, places, splits, predictor, rule)
    words = "only what the integer programs of the anchored scheme propose was looked at"
    return replace(found, narrowings=(*found.narrowings, words), method=Method.ANCHORED, gap=None)


def _proposals(
    job: Job, supplies: Sequence[TypeSupply], predictor: Predictor, rule: SpaceRule
) -> Splits:
    """Returns one split per anchor whose integer program has a solution."""
    times = [worker_times(job, supply, predictor, rule) for supply in supplies]
    targets_s = [target for own in times for target in _targets_s(own, job)]
    rows: list[tuple[IntArray, IntArray]] = []
    seen: set[tuple[int, ...]] = set()
    for target_s in sorted(set(targets_s)):
        batches = tuple(own.largest_within(target_s) for own in times)
        if batches in seen:  # the same program as at the lower target, with a tighter budget
            continue
        seen.add(batches)
        program = _Program(supplies, np.array(batches, dtype=np.int64), job.global_batch)
        cap = _price_cap(job, supplies, target_s)
        workers = None if cap is None else program.solve(cap)
        if workers is None:
            workers = program.solve(np.inf)
        if workers is not None:
            rows.append((workers, workers * program.batches))
    empty = np.zeros((0, len(supplies)), dtype=np.int64)
    return Splits(
        np.stack([workers for workers, _ in rows]) if rows else empty,
        np.stack([samples for _, samples in rows]) if rows else empty,
    )


def _targets_s(times: WorkerTimes, job: Job) -> FloatArray:
    """Returns the latencies of a type's anchors: of all its batches, or of at most `_MOST_ANCHORS`.

    Those that divide the global batch come first, since a type alone needs one of them.
    """
    if job.batch_rule is BatchRule.POWER_OF_TWO or len(times.batches) <= _MOST_ANCHORS:
        return times.latency_s
    divides = np.flatnonzero(job.global_batch % times.batches == 0)[-_MOST_ANCHORS // 2 :]
    spread = np.linspace(0, len(times.batches) - 1, _MOST_ANCHORS - len(divides)).astype(np.int64)
    return times.latency_s[np.unique(np.concatenate([divides, spread]))]


def _price_cap(job: Job, supplies: Sequence[TypeSupply], target_s: float) -> float | None:
    """Returns the dollars per hour that the budget pays at the target; None past the deadline."""
    billed_s = job.overheads.billed_s(job.iterations) + job.iterations * target_s
    limits = job.limits
    if limits.deadline_s is not None and job.overheads.launch_s + billed_s > limits.deadline_s:
        return None
    if limits.budget_usd is None:
        return np.inf
    least_s = min(offer.billing.minimum_s for supply in supplies for offer in supply.offers)
    hours = max(billed_s, least_s) / _S_PER_HOUR
    return limits.budget_usd / hours - job.extra_usd_per_hour


@dataclass(frozen=True)
class _Program:
    """The integer program of one anchor; its variables are workers by type, then VMs by offer.

    Attributes:
        supplies: T instance types.
        batches: (T,) local batches; 0: the type is not used.
        global_batch: samples that all workers process together.
    """

    supplies: Sequence[TypeSupply]
    batches: IntArray
    global_batch: int

    def solve(self, most_usd_per_hour: float) -> IntArray | None:
        """Returns (T,) workers on the fewest VMs, or None where there are none.

        Args:
            most_usd_per_hour: what all VMs may cost together.
        """
        types = len(self.supplies)
        offers = [(t, offer) for t, supply in enumerate(self.supplies) for offer in supply.offers]
        owner = np.array([t for t, _ in offers])
        columns = types + len(offers)
        used = self.batches > 0
        rows: list[FloatArray] = []
        low: list[float] = []
        high: list[float] = []

        def constrain(row: FloatArray, least: float, most: float) -> None:
            rows.append(row)
            low.append(least)
            high.append(most)

        served = np.zeros(columns)
        served[:types] = self.batches
        constrain(served, self.global_batch, self.global_batch)
        for t, supply in enumerate(self.supplies):
            row = np.zeros(columns)
            row[t] = 1.0
            row[types:] = np.where(owner == t, -float(supply.instance_type.gpus), 0.0)
            constrain(row, -np.inf, 0.0)
        for pool in dict.fromkeys(pool for _, offer in offers for pool in offer.pools):
            row = np.zeros(columns)
            row[types:] = [
                pool.weight(offer.instance_type) if pool in offer.pools else 0.0
                for _, offer in offers
            ]
            constrain(row, -np.inf, float(pool.limit))
        if np.isfinite(most_usd_per_hour):
            row = np.zeros(columns)
            row[types:] = [offer.usd_per_hour for _, offer in offers]
            constrain(row, -np.inf, most_usd_per_hour)
        most = np.concatenate(
            [
                np.where(used, [supply.workers for supply in self.supplies], 0),
                np.where(used[owner], [offer.most_vms for _, offer in offers], 0),
            ]
        )
        vms = np.zeros(columns)
        vms[types:] = 1.0
        solver: Any = optimize
        found = solver.milp(
            vms,
            integrality=np.ones(columns),
            bounds=solver.Bounds(0, most),
            constraints=solver.LinearConstraint(np.stack(rows), low, high),
            # With it, HiGHS prints lines of its own to standard output more often.
            options={"presolve": False},
        )
        if found.x is None:
            return None
        workers = np.rint(np.asarray(found.x[:types], dtype=np.float64)).astype(np.int64)
        return workers if int(workers @ self.batches) == self.global_batch else None
