"""Plans for what is left of a run: the planner's answers as the policy's candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srifty.compute.latency import LatencyModel
from srifty.control.learned import Learned, forecast_of
from srifty.control.pools import Pools
from srifty.control.situation import Candidate, candidates_of, offers_left, remaining_job
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.events import Pool, Progress
from srifty.core.forecast import IterationForecast
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.core.plan import PlanResult
from srifty.planner import BatchRange, plan
from srifty.simulator import Predictor


@dataclass(frozen=True)
class Planning:
    """A job with all that plans for it are made from.

    Attributes:
        job: the whole job; its limits count from the command.
        offers: what can be rented.
        predictor: forecasts iterations.
        batch_ranges: micro-batch range by GPU model.
        latencies: latency models by GPU model.
        allow_cross_zone: whether one plan may use several zones.
        prefer: instance types, the most wanted first; the first plan that uses only these counts.
        apart: pairs of instance types that must not be in one plan: they could not talk.
    """

    job: Job
    offers: tuple[Offer, ...]
    predictor: Predictor
    batch_ranges: Mapping[str, BatchRange]
    latencies: Mapping[str, LatencyModel]
    allow_cross_zone: bool = False
    prefer: tuple[str, ...] = ()
    apart: frozenset[frozenset[str]] = frozenset()

    def first(self) -> PlanResult:
        """Returns the plan for the whole job, or why there is none."""
        return self._plan(self.job, self.offers)

    def candidates(
        self, progress: Progress, pools: Pools, held: Mapping[Pool, int]
    ) -> tuple[Candidate, ...]:
        """Returns the plans that what is left of the job could go on with.

        Where none meets the limits, that which comes nearest, and the front. A deadline that has
        passed is none any more: what is late is still to be ended.

        Args:
            progress: how far the run is.
            pools: what is known of the pools.
            held: VMs that boot or run, by pool.
        """
        job = remaining_job(self.job, progress)
        if job is None:
            job = remaining_job(_without_deadline(self.job), progress)
        if job is None:
            return ()
        result = self._plan(job, offers_left(self.offers, pools, held, progress.at_s))
        if self.prefer and result.plan is not None:
            found: tuple[Candidate, ...] = (Candidate.of_plan(result.plan),)
            return tuple(each for each in found if not self._is_apart(each.config))
        found = candidates_of(result)
        if result.nearest is not None:
            nearest = Candidate.of_plan(result.nearest)
            found = (nearest, *(each for each in found if each.config != nearest.config))
        return tuple(each for each in found if not self._is_apart(each.config))

    def candidate(self, config: ClusterConfig) -> Candidate:
        """Returns a configuration with its forecast."""
        forecast = self.forecast(config)
        return Candidate.of(config, forecast.mean_s, forecast.persistent_std_s)

    def paces_s(self, config: ClusterConfig) -> dict[VmGroup, float]:
        """Returns the seconds that each group's compute takes in a step, as the profiles say."""
        return {group: self._compute_s(group) for group in config.groups}

    def forecast(self, config: ClusterConfig) -> IterationForecast:
        """Returns the forecast of a configuration's iteration."""
        return forecast_of(self.predictor, self.job, config)

    def knowing(self, learned: Learned) -> Planning:
        """Returns the planning that carries over what a run has shown."""
        return replace(self, predictor=learned.predictor(self.predictor))

    def without(self, pairs: Iterable[frozenset[str]]) -> Planning:
        """Returns the planning that keeps pairs of instance types apart."""
        return replace(self, apart=self.apart | frozenset(pairs))

    def _compute_s(self, group: VmGroup) -> float:
        model = self.latencies[group.offer.instance_type.gpu]
        micro_batch = np.array([float(group.micro_batch)])
        passes = model.forward.predict(micro_batch) + model.backward.predict(micro_batch)
        return float(passes[0]) * group.accumulation + model.optimizer_s

    def _plan(self, job: Job, offers: Sequence[Offer]) -> PlanResult:
        # With types that must stay apart, only plans of the ranking are left: look at more of them.
        return plan(
            job,
            offers,
            self.predictor,
            self.batch_ranges,
            allow_cross_zone=self.allow_cross_zone,
            prefer=self.prefer,
            top=200 if self.apart else 5,
        )

    def _is_apart(self, config: ClusterConfig) -> bool:
        kinds = {group.offer.instance_type.name for group in config.groups}
        return any(pair <= kinds for pair in self.apart)


def _without_deadline(job: Job) -> Job:
    return replace(job, limits=replace(job.limits, deadline_s=None))
