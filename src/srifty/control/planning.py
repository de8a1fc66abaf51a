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
from srifty.core.job import Job, Limits, Objective
from srifty.core.offers import Market, Offer
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
        return self._plan(self.job, self.offers, self.prefer)

    def candidates(
        self, progress: Progress, pools: Pools, held: Mapping[Pool, int]
    ) -> tuple[Candidate, ...]:
        """Returns the plans that what is left of the job could go on with.

        Where none meets the limits, that which comes nearest, and the front; and where cheaper VMs
        may be waited for, plans with pools that are closed for now. A deadline that has passed is
        none any more: what is late is still to be ended.

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
        found = self._found(job, offers_left(self.offers, pools, held, progress.at_s))
        if job.limits.deadline_s is not None and job.objective is Objective.COST:
            # What may be had again later is worth waiting for, perhaps.
            later = tuple(o for o in self.offers if not pools.is_lost(Pool.of(o)))
            is_closed = any(not pools.is_open(Pool.of(o), progress.at_s) for o in later)
            # Nobody waits for them without VMs that nobody reclaims to fall back on.
            if is_closed and any(offer.market is not Market.SPOT for offer in later):
                found = self._found(job, later) | found
        return tuple(found.values())

    def _found(self, job: Job, offers: Sequence[Offer]) -> dict[ClusterConfig, Candidate]:
        """Returns the plans for a job that are worth a look, the nearest miss first."""
        result = self._plan(job, offers, self.prefer)
        if self.prefer and result.plan is not None:
            plans = [Candidate.of_plan(result.plan)]
        else:
            nearest = () if result.nearest is None else (Candidate.of_plan(result.nearest),)
            plans = [*nearest, *candidates_of(result)]
        return {each.config: each for each in plans if not self._is_apart(each.config)}

    def meanwhile(self, ready: Mapping[Pool, int], *, passes: bool) -> ClusterConfig | None:
        """Returns how VMs that run would train the job the fastest by themselves; None: not at all.

        Args:
            ready: VMs that run, by pool.
            passes: whether workers may make several passes in a step, which not every script can.
        """
        offers = [
            replace(offer, quota=ready[Pool.of(offer)])
            for offer in self.offers
            if ready.get(Pool.of(offer))
        ]
        if not offers:
            return None
        job = replace(self.job, limits=Limits(), objective=Objective.TIME)
        for found in self._plan(job, offers).ranking:
            in_one = all(group.accumulation == 1 for group in found.config.groups)
            if (in_one or passes or job.accumulate) and not self._is_apart(found.config):
                return found.config
        return None

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

    def _plan(self, job: Job, offers: Sequence[Offer], prefer: Sequence[str] = ()) -> PlanResult:
        # With types that must stay apart, only plans of the ranking are left: look at more of them.
        return plan(
            job,
            offers,
            self.predictor,
            self.batch_ranges,
            allow_cross_zone=self.allow_cross_zone,
            prefer=prefer,
            top=200 if self.apart else 5,
        )

    def _is_apart(self, config: ClusterConfig) -> bool:
        kinds = {group.offer.instance_type.name for group in config.groups}
        return any(pair <= kinds for pair in self.apart)


def _without_deadline(job: Job) -> Job:
    return replace(job, limits=replace(job.limits, deadline_s=None))
