"""A set of configurations with what the predictor says of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import Job, Objective
from srifty.core.plan import Plan
from srifty.errors import InputError
from srifty.planner.assemble import assemble
from srifty.planner.space import MOST_ROWS, SpaceRule, Splits, enumerate_splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.job_forecast import JobTable, forecast_jobs
from srifty.simulator.predictor import Predictor
from srifty.simulator.tables import ConfigTable, ForecastTable

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

Progress = Callable[[int, int], None]

# Rows between two reports of progress.
_REPORT_ROWS = 5_000
# A space of more rows is searched from the useful micro-batch upwards, as Luo et al. 2022 prune.
_PRUNE_ROWS = 10_000
# A place of more configurations is not searched exhaustively, even where that is asked for.
MOST_WHOLE_ROWS = 200_000


@dataclass(frozen=True)
class Candidates:
    """R configurations and their forecasts.

    Attributes:
        job: the job that they serve.
        configs: the configurations.
        iterations: their iteration forecasts.
        jobs: their job forecasts.
        has_remainder: (R,) whether local batches of a type differ by one.
        narrowings: how the space was narrowed, in words; empty where it was not.
        method: how the space was looked through.
        gap: by which share of its objective the best feasible one can be beaten at most by what is
            not here; None: unknown.
    """

    job: Job
    configs: ConfigTable
    iterations: ForecastTable
    jobs: JobTable
    has_remainder: BoolArray
    narrowings: tuple[str, ...]
    method: str = "exhaustive"
    gap: float | None = 0.0

    def __len__(self) -> int:
        return len(self.configs)

    @property
    def needed_time_s(self) -> FloatArray:
        """(R,) the shortest deadline that each keeps at the asked confidence."""
        return self.jobs.needed_time_s(self.job.limits.confidence)

    @property
    def needed_usd(self) -> FloatArray:
        """(R,) the smallest budget that each keeps at the asked confidence."""
        return self.jobs.cost_usd(self.needed_time_s)

    @property
    def available(self) -> BoolArray:
        """(R,) whether the reservations that are used last long enough at the asked confidence."""
        return self.needed_time_s <= self.jobs.available_s

    @property
    def feasible(self) -> BoolArray:
        """(R,) whether both limits hold together at the asked confidence.

        The bill grows with time alone, so both quantiles are reached in the same event.
        """
        return self.available & self.within_limits

    @property
    def within_limits(self) -> BoolArray:
        """(R,) whether both limits hold at the asked confidence if reservations last."""
        limits = self.job.limits
        ok = np.ones(len(self), dtype=np.bool_)
        if limits.deadline_s is not None:
            ok = ok & (self.needed_time_s <= limits.deadline_s)
        if limits.budget_usd is not None:
            ok = ok & (self.needed_usd <= limits.budget_usd)
        return ok

    def ranked(self, among: BoolArray) -> IntArray:
        """Returns the marked rows, best first.

        By the objective; of equal ones those with more local batches that are multiples of 8, which
        GPUs take more readily; then by the other quantity.
        """
        time, cost = self.jobs.time_mean_s, self.jobs.cost_mean_usd
        first, second = (cost, time) if self.job.objective is Objective.COST else (time, cost)
        rows = np.flatnonzero(among)
        odd = self._odd_batches[rows]
        return rows[np.lexsort((second[rows], odd, first[rows]))]

    @property
    def _odd_batches(self) -> IntArray:
        """(R,) VM groups whose local batches are no multiples of 8."""
        configs = self.configs
        odd = configs.samples_per_vm % (8 * configs.gpus_used) != 0
        return (odd & (configs.count > 0)).sum(axis=1)

    @classmethod
    def concatenate(
        cls, job: Job, parts: Sequence[Candidates], *, method: str, gap: float | None
    ) -> Candidates:
        """Returns the configurations of several parts, each once.

        Args:
            job: what they are judged by.
            parts: at least one.
            method: how they were found.
            gap: see the class.
        """
        configs = ConfigTable.concatenate([part.configs for part in parts])
        iterations = ForecastTable.concatenate([part.iterations for part in parts])
        has_remainder = np.concatenate([part.has_remainder for part in parts])
        rows = configs.distinct()
        configs, iterations = configs.take(rows), iterations.take(rows)
        words = tuple(dict.fromkeys(words for part in parts for words in part.narrowings))
        return cls(
            job,
            configs,
            iterations,
            forecast_jobs(job, configs, iterations),
            has_remainder[rows],
            words,
            method,
            None if words else gap,
        )

    def plan(self, row: int) -> Plan:
        """Returns one row for people."""
        return Plan(self.configs.config(row), self.jobs.forecast(row, self.iterations.row(row)))

    def plans(self, rows: Sequence[int] | IntArray) -> tuple[Plan, ...]:
        """Returns some rows for people."""
        return tuple(self.plan(int(row)) for row in rows)


def evaluate(
    job: Job,
    places: Sequence[Sequence[TypeSupply]],
    predictor: Predictor,
    rule: SpaceRule,
    progress: Progress | None = None,
    most_rows: int = MOST_ROWS,
    *,
    whole: bool = False,
) -> Candidates:
    """Returns all configurations of a search space with their forecasts, thinned if there are many.

    Args:
        job: what is trained.
        places: what can be had in each place; a configuration stays in one of them.
        predictor: forecasts iterations.
        rule: which splits the space holds.
        progress: called with (done, all) rows now and then.
        most_rows: about how many configurations are wanted at most, in each place.
        whole: refuses to narrow the space, whatever `most_rows` says.

    Raises:
        InputError: `whole`, and a place has more than `MOST_WHOLE_ROWS` configurations.
    """
    enumerated = _every if whole else _enumerate
    splits = [enumerated(supplies, job.global_batch, rule, most_rows) for supplies in places]
    return forecast_splits(job, places, splits, predictor, rule, progress)


def forecast_splits(
    job: Job,
    places: Sequence[Sequence[TypeSupply]],
    splits: Sequence[Splits],
    predictor: Predictor,
    rule: SpaceRule,
    progress: Progress | None = None,
) -> Candidates:
    """Returns the configurations of some splits of each place, with their forecasts.

    Args:
        job: what is trained.
        places: what can be had in each place.
        splits: the splits of each place.
        predictor: forecasts iterations.
        rule: which splits the space holds.
        progress: called with (done, all) rows now and then.
    """
    tables: list[ConfigTable] = []
    remainders: list[BoolArray] = []
    narrowings: list[str] = []
    for supplies, own in zip(places, splits, strict=True):
        assembled = assemble(supplies, own, rule.batch_rule)
        usable = np.flatnonzero(_micro_batches_fit(assembled.configs, supplies))
        tables.append(assembled.configs.take(usable))
        remainders.append(own.has_remainder[assembled.split[usable]])
        narrowings += (own.thinning, assembled.narrowing, _crossing(supplies))
    configs = ConfigTable.concatenate(tables)
    has_remainder = np.concatenate([np.zeros(0, dtype=np.bool_), *remainders])
    if len(tables) > 1:  # what holds for a whole region is in each of its zones
        distinct = configs.distinct()
        configs, has_remainder = configs.take(distinct), has_remainder[distinct]
    iterations = _predict(job, predictor, configs, progress)
    words = tuple(dict.fromkeys(words for words in narrowings if words))
    return Candidates(
        job,
        configs,
        iterations,
        forecast_jobs(job, configs, iterations),
        has_remainder,
        words,
        gap=None if words else 0.0,
    )


def _crossing(supplies: Sequence[TypeSupply]) -> str:
    """Returns how the choice of zones is narrowed; empty where each choice is looked at.

    Of two zones, each alone and both together are places of their own.
    """
    zones = {offer.location.zone for supply in supplies for offer in supply.offers} - {None}
    if len(zones) < 3:
        return ""
    return "across zones, VMs are taken where they are cheapest, whatever crosses"


def _predict(
    job: Job, predictor: Predictor, configs: ConfigTable, progress: Progress | None
) -> ForecastTable:
    """Returns the forecasts of all rows, reporting progress in between."""
    step = max(len(configs) if progress is None else _REPORT_ROWS, 1)
    tables: list[ForecastTable] = []
    for start in range(0, max(len(configs), 1), step):
        tables.append(predictor.predict(job, configs.take(slice(start, start + step))))
        if progress is not None:
            progress(min(start + step, len(configs)), len(configs))
    return ForecastTable.concatenate(tables)


def _every(
    supplies: Sequence[TypeSupply], global_batch: int, rule: SpaceRule, most_rows: int
) -> Splits:
    """Returns all splits, however many `most_rows` are."""
    del most_rows
    splits = enumerate_splits(supplies, global_batch, rule, most_rows=MOST_WHOLE_ROWS)
    if not splits.complete:
        raise InputError(
            f"one place has more than {MOST_WHOLE_ROWS:,} configurations, too many to look at "
            "each; offer fewer types or VMs, or leave the method to Srifty (auto)",
            "--method exhaustive",
        )
    return splits


def _enumerate(
    supplies: Sequence[TypeSupply], global_batch: int, rule: SpaceRule, most_rows: int
) -> Splits:
    """Returns the splits, without micro-batches below the knee where there are very many."""
    splits = enumerate_splits(supplies, global_batch, rule, most_rows=most_rows)
    if splits.complete and len(splits) <= _PRUNE_ROWS:
        return splits
    pruned = enumerate_splits(
        supplies, global_batch, replace(rule, from_knee=True), most_rows=most_rows
    )
    if not len(pruned):
        return splits
    words = "micro-batches below the useful one are left out"
    return replace(pruned, thinning="; ".join(filter(None, (words, pruned.thinning))))


def _micro_batches_fit(configs: ConfigTable, supplies: Sequence[TypeSupply]) -> BoolArray:
    """Returns (R,) whether every pass has a usable number of samples.

    Passes that share a local batch unevenly can fall below the smallest usable micro-batch.
    """
    least_of = {supply.instance_type: supply.batches.least for supply in supplies}
    least = np.array([least_of[offer.instance_type] for offer in configs.offers] or [1])
    smallest = configs.samples_per_vm // configs.gpus_used // configs.accumulation
    return ((configs.count == 0) | (smallest >= least[configs.offer])).all(axis=1)
