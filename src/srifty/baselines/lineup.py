"""Every method and baseline on one job: what each chooses, and what our simulator says of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srifty.baselines.apm import apm_of
from srifty.baselines.greedy import full_batch_cheapest_first, magic_batch_fastest_first
from srifty.baselines.oracle_bo import oracle_bo
from srifty.baselines.paleo import paleo_of
from srifty.baselines.point_forecasts import exact_forecasts
from srifty.core.cluster import ClusterConfig
from srifty.core.forecast import JobForecast
from srifty.core.hardware import GpuModel
from srifty.core.job import Job, Objective
from srifty.core.offers import Offer
from srifty.errors import InputError
from srifty.planner import (
    BatchRange,
    Method,
    TypeSupply,
    choose,
    one_type_configs,
    places_of,
    supplies_of,
    worker_speed,
)
from srifty.simulator import ConfigTable, JobTable, Predictor, Simulator, forecast_jobs

Progress = Callable[[float, int], None]
_Within = Callable[[int, int], None]

_NO_DEAL = "its rule does not deal the global batch exactly on these VMs"
_NO_FEASIBLE = "it finds no configuration within the limits"


@dataclass(frozen=True)
class Choice:
    """What one method chooses.

    Attributes:
        method: its name.
        about: what it is, in a few words.
        config: its choice; None where it makes none.
        own: its own forecast of that; None where it makes none.
        simulated: our simulator's forecast of that.
        meets_limits: whether our simulator says that the limits hold at the asked confidence.
        reason: why there is no choice; empty where there is one.
        seconds: how long it took.
    """

    method: str
    about: str
    config: ClusterConfig | None = None
    own: JobForecast | None = None
    simulated: JobForecast | None = None
    meets_limits: bool = False
    reason: str = ""
    seconds: float = 0.0

    def value(self, objective: Objective) -> float | None:
        """Returns the expected objective by our simulator: seconds, or dollars."""
        if self.simulated is None:
            return None
        time_s, cost = self.simulated.time_s, self.simulated.cost_usd
        return time_s.mean if objective is Objective.TIME else cost.mean


@dataclass(frozen=True)
class Rivals:
    """A job with all that the methods take.

    Attributes:
        job: what is trained.
        offers: what can be rented.
        simulator: ours; the ground truth of the comparison.
        batch_ranges: micro-batch range by GPU model.
        gpus: data sheets by GPU model, for Paleo.
        allow_cross_zone: whether one plan may use several zones.
        prefer: instance types of which the first that will do are used, by searches of ours.
        seed: of Oracle BO's first probes.
    """

    job: Job
    offers: Sequence[Offer]
    simulator: Simulator
    batch_ranges: Mapping[str, BatchRange]
    gpus: Mapping[str, GpuModel]
    allow_cross_zone: bool = False
    prefer: Sequence[str] = ()
    seed: int = 0

    @property
    def places(self) -> list[tuple[TypeSupply, ...]]:
        """What can be had in each place."""
        return [
            supplies
            for place in places_of(self.offers, allow_cross_zone=self.allow_cross_zone)
            if (supplies := supplies_of(place, self.batch_ranges))
        ]

    def line_up(self, progress: Progress | None = None) -> tuple[Choice, ...]:
        """Returns what every method chooses, ours first.

        Args:
            progress: called with (done, all) methods, parts of a method included.
        """
        methods: tuple[Callable[[_Within], Choice], ...] = (
            self._srifty,
            self._anchored,
            self._apm,
            self._paleo,
            lambda _: self.oracle_bo(),
            lambda _: self._cheapest_first(),
            lambda _: self._fastest_first(),
            lambda _: self._one_type(),
        )
        choices: list[Choice] = []
        for index, method in enumerate(methods):
            began = time.perf_counter()

            def within(done: int, total: int, index: int = index) -> None:
                if progress is not None:
                    progress(index + done / max(total, 1), len(methods))

            choice = method(within)
            choices.append(replace(choice, seconds=time.perf_counter() - began))
            within(1, 1)
        return tuple(choices)

    def oracle_bo(self) -> Choice:
        """Returns Oracle BO's choice, from its seed's first probes."""
        choice = Choice("oracle-bo", "Bayesian optimisation per type, probes a third")
        configs = one_type_configs(self.job, self.places)
        truth = self.simulator
        found = oracle_bo(
            self.job, configs, lambda some: truth.predict(self.job, some).mean_s, seed=self.seed
        )
        if found.row is None:
            return replace(choice, reason=_NO_FEASIBLE)
        config = configs.config(found.row)
        table = ConfigTable.from_configs([config])
        probed = exact_forecasts(np.array([found.iteration_s]))
        own = forecast_jobs(self.job, table, probed).forecast(0, probed.row(0))
        return self._judged(choice, config, own)

    def _srifty(self, within: _Within) -> Choice:
        return self._planned(Choice("srifty", "our plan"), self.simulator, within)

    def _anchored(self, within: _Within) -> Choice:
        choice = Choice("anchored", "integer program per anchor, our simulator")
        return self._planned(choice, self.simulator, within, Method.ANCHORED)

    def _apm(self, within: _Within) -> Choice:
        choice = Choice("apm", "our search, APM's forecast")
        apm = apm_of(self.job, self.offers, self.simulator.allreduce)
        return self._planned(choice, apm, within)

    def _paleo(self, within: _Within) -> Choice:
        choice = Choice("paleo", "our search, Paleo's forecast")
        try:
            paleo = paleo_of(self.job, self.gpus)
        except InputError as error:
            return replace(choice, reason="; ".join(p.message for p in error.problems))
        return self._planned(choice, paleo, within)

    def _cheapest_first(self) -> Choice:
        choice = Choice("cgf", "full batch, cheapest GPU first")
        job = self.job
        return self._cheapest_place(
            choice,
            lambda supplies: full_batch_cheapest_first(supplies, job.global_batch, job.batch_rule),
        )

    def _fastest_first(self) -> Choice:
        choice = Choice("fgf", "batch of 64, fastest GPU first")
        job = self.job
        speed = worker_speed(job, self.simulator)
        return self._cheapest_place(
            choice,
            lambda supplies: magic_batch_fastest_first(
                supplies, job.global_batch, job.batch_rule, speed
            ),
        )

    def _one_type(self) -> Choice:
        choice = Choice("cheapest-homogeneous", "one instance type, cheapest within the limits")
        configs = one_type_configs(self.job, self.places)
        jobs = forecast_jobs(self.job, configs, self.simulator.predict(self.job, configs))
        cost = np.where(_within_limits(self.job, jobs), jobs.cost_mean_usd, np.inf)
        if not np.isfinite(cost).any():
            return replace(choice, reason=_NO_FEASIBLE)
        return self._judged(choice, configs.config(int(cost.argmin())), own=None)

    def _planned(
        self,
        choice: Choice,
        predictor: Predictor,
        within: _Within,
        method: Method = Method.AUTO,
    ) -> Choice:
        chosen = choose(
            self.job,
            self.offers,
            predictor,
            self.batch_ranges,
            allow_cross_zone=self.allow_cross_zone,
            prefer=self.prefer,
            method=method,
            progress=within,
        )
        if chosen is None:
            return replace(choice, reason=_NO_FEASIBLE)
        return self._judged(choice, chosen.config, chosen.forecast)

    def _cheapest_place(
        self, choice: Choice, rule: Callable[[Sequence[TypeSupply]], ClusterConfig | None]
    ) -> Choice:
        found = [config for place in self.places if (config := rule(place)) is not None]
        if not found:
            return replace(choice, reason=_NO_DEAL)
        return self._judged(choice, min(found, key=lambda each: each.usd_per_hour), own=None)

    def _judged(self, choice: Choice, config: ClusterConfig, own: JobForecast | None) -> Choice:
        """Returns the choice with what our simulator says of it."""
        table = ConfigTable.from_configs([config])
        iterations = self.simulator.predict(self.job, table)
        jobs = forecast_jobs(self.job, table, iterations)
        return replace(
            choice,
            config=config,
            own=own,
            simulated=jobs.forecast(0, iterations.row(0)),
            meets_limits=bool(_within_limits(self.job, jobs)[0]),
        )


def _within_limits(job: Job, jobs: JobTable) -> np.ndarray:
    """Returns (R,) whether all limits hold at the asked confidence."""
    return jobs.time_quantile_s(job.limits.confidence) <= jobs.time_limit_s
