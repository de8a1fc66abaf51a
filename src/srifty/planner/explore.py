"""Which configurations a plan looks at: all of a small space, the best of a large one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from srifty.core.job import BatchRule, Job, Limits, Objective
from srifty.planner.evaluate import Candidates, FloatArray, Progress, evaluate, forecast_splits
from srifty.planner.neighbours import neighbours
from srifty.planner.search import Outcome, Place, TableKey, search
from srifty.planner.space import SpaceRule, Splits, every_split
from srifty.planner.supply import TypeSupply
from srifty.simulator.bounds import IterationBounds
from srifty.simulator.predictor import BoundedPredictor, Predictor

# Spaces of no more configurations than this are looked at as a whole, as in Luo et al. 2022.
EXHAUSTIVE_ROWS = 10_000
EXHAUSTIVE, SEARCH, THINNED = "exhaustive", "branch and bound", "thinned"
# What a search for the other objective, or for what would make a job feasible, may take: as long as
# the search itself, and at least and at most these shares of the time limit.
_LEAST_SHARE, _MOST_SHARE = 0.1, 0.5
# What powers of two get of the time for local batches of any size.
_FIRST_SHARE = 0.3

Places = Sequence[Sequence[TypeSupply]]


@dataclass(frozen=True)
class Clock:
    """How long a search may take.

    Attributes:
        limit_s: seconds that it may take.
        exhaustive_rows: spaces of no more configurations are looked at as a whole, however long
            that takes.
        now: tells the time in seconds.
        began_s: when it began.
    """

    limit_s: float
    exhaustive_rows: int = EXHAUSTIVE_ROWS
    now: Callable[[], float] = time.perf_counter
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "began_s", self.now())

    @property
    def ends_at_s(self) -> float:
        """When it is over."""
        return self.began_s + self.limit_s

    @property
    def left_s(self) -> float:
        """Seconds until then."""
        return self.ends_at_s - self.now()


def explore(
    job: Job,
    places: Places,
    predictor: Predictor,
    rule: SpaceRule,
    clock: Clock,
    progress: Progress | None = None,
    *,
    best_only: bool = False,
) -> Candidates:
    """Returns configurations among which the best one is, as far as can be told in the given time.

    Args:
        job: what is trained.
        places: what can be had in each place; a configuration stays in one of them.
        predictor: forecasts iterations.
        rule: which splits the space holds.
        clock: when to stop.
        progress: called with (done, all) configurations now and then.
        best_only: whether nothing is looked for beside the best one: neither the other end of the
            front nor limits that would do.
    """
    splits = _every(job, places, rule, clock.exhaustive_rows)
    if splits is not None:
        return forecast_splits(job, places, splits, predictor, rule, progress)
    bounds = predictor.bounds(job) if isinstance(predictor, BoundedPredictor) else None
    if bounds is not None:
        expedition = _Expedition(job, places, predictor, rule, bounds, progress, clock.now)
        found = expedition.run(clock, best_only=best_only)
        if found is not None:
            return found
    found = evaluate(job, places, predictor, rule, progress)
    return replace(found, method=THINNED) if found.narrowings else found


def _every(job: Job, places: Places, rule: SpaceRule, most_rows: int) -> list[Splits] | None:
    """Returns all splits of each place; None where there are many."""
    splits: list[Splits] = []
    left = most_rows
    for supplies in places:
        own = every_split(supplies, job.global_batch, rule, most_rows=left)
        if own is None or len(own) > left:
            return None
        splits.append(own)
        left -= len(own)
    return splits


@dataclass
class _Expedition:
    """A search with all that it looks at."""

    job: Job
    places: Places
    predictor: Predictor
    rule: SpaceRule
    bounds: IterationBounds
    progress: Progress | None
    now: Callable[[], float]
    parts: list[Candidates] = field(default_factory=list[Candidates])
    seen: int = 0

    def run(self, clock: Clock, *, best_only: bool) -> Candidates | None:
        """Returns what was looked at; None where the space is too large to be searched."""
        known: dict[TableKey, FloatArray] = {}
        trees = self._trees(self.rule, known)
        if trees is None:
            return None
        best = math.inf
        if self.rule.batch_rule is BatchRule.ANY:
            # The few powers of two are among the many: their best one cuts most others off.
            powers = self._trees(replace(self.rule, batch_rule=BatchRule.POWER_OF_TWO), known)
            if powers is not None:
                share_s = _FIRST_SHARE * clock.limit_s
                best = self._search(powers, self.now() + share_s).best
        outcome = self._search(trees, clock.ends_at_s, best)
        spent_s = self.now() - clock.began_s
        spare_s = min(max(spent_s, _LEAST_SHARE * clock.limit_s), _MOST_SHARE * clock.limit_s)
        questions = self._relaxed() if math.isinf(outcome.best) else (self._other_end(),)
        if best_only:
            questions = ()
        for job, sure in questions:
            if math.isfinite(outcome.best):
                spare_s = min(spare_s, clock.left_s)
            if spare_s > 0:
                others = [replace(tree, job=job, sure=sure) for tree in trees]
                self._search(others, self.now() + spare_s)
        if not self.parts:
            none = [
                Splits(np.zeros((0, len(s)), np.int64), np.zeros((0, len(s)), np.int64))
                for s in self.places
            ]
            self.parts.append(
                forecast_splits(self.job, self.places, none, self.predictor, self.rule)
            )
        found = Candidates.concatenate(self.job, self.parts, method=SEARCH, gap=outcome.gap)
        return found if best_only else self._with_neighbours(found, outcome)

    def _with_neighbours(self, found: Candidates, outcome: Outcome) -> Candidates:
        """Returns what was found with what stands near the best of it."""
        splits = neighbours(found, self.places, self.rule)
        near = forecast_splits(self.job, self.places, splits, self.predictor, self.rule)
        if not len(near):
            return found
        # How these were narrowed touches no proof: the search's bounds hold for what is left out.
        near = replace(near, narrowings=found.narrowings)
        outcome = replace(outcome, best=min(outcome.best, _best(near, sure=False)))
        return Candidates.concatenate(self.job, [found, near], method=SEARCH, gap=outcome.gap)

    def _other_end(self) -> tuple[Job, bool]:
        """Returns the search for the other end of the time–cost front, which knows no limits."""
        other = Objective.TIME if self.job.objective is Objective.COST else Objective.COST
        free = Limits(confidence=self.job.limits.confidence)
        return replace(self.job, objective=other, limits=free), False

    def _relaxed(self) -> tuple[tuple[Job, bool], ...]:
        """Returns the searches for the nearest limits that would do, at the asked confidence."""
        limits = self.job.limits
        in_budget = replace(limits, deadline_s=None)
        in_time = replace(limits, budget_usd=None)
        free = Limits(confidence=limits.confidence)
        searches = [
            (Objective.TIME, in_budget), (Objective.COST, in_time),
            (Objective.TIME, free), (Objective.COST, free),
        ]  # fmt: skip
        return tuple(
            (replace(self.job, objective=objective, limits=relaxed), True)
            for objective, relaxed in dict.fromkeys(searches)
        )

    def _trees(self, rule: SpaceRule, known: dict[TableKey, FloatArray]) -> list[Place] | None:
        """Returns the search trees of all places; None where one of them is too large."""
        trees: list[Place] = []
        for supplies in self.places:
            tree = Place.of(self.job, supplies, rule, self.bounds, known)
            if tree is None:
                return None
            trees.append(tree)
        return trees

    def _search(self, trees: Sequence[Place], ends_at_s: float, best: float = math.inf) -> Outcome:
        """Looks at configurations until the best one is proved to be, or the time is over."""

        def look(number: int, splits: Splits) -> float:
            tree = trees[number]
            found = forecast_splits(tree.job, [tree.supplies], [splits], self.predictor, self.rule)
            self.parts.append(found)
            self.seen += len(found)
            if self.progress is not None:
                self.progress(self.seen, self.seen)
            return _best(found, sure=tree.sure)

        return search(trees, look, ends_at=ends_at_s, best=best, clock=self.now)


def _best(found: Candidates, *, sure: bool) -> float:
    """Returns the smallest objective of a feasible configuration; infinite where there is none."""
    if found.job.objective is Objective.TIME:
        values = found.needed_time_s if sure else found.jobs.time_mean_s
    else:
        values = found.needed_usd if sure else found.jobs.cost_mean_usd
    return float(np.min(values, where=found.feasible, initial=np.inf))
