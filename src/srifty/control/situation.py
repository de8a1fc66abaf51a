"""What a decision is made from: plans that could be gone on with, and where the run stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from srifty.control.blame import Blame
from srifty.control.pace import Pace, PaceRule
from srifty.control.pools import PoolRule, Pools
from srifty.core._checks import (
    require,
    require_count,
    require_fraction,
    require_not_negative,
    require_positive,
)
from srifty.core.cluster import ClusterConfig
from srifty.core.events import Pool, Progress
from srifty.core.job import Job
from srifty.core.offers import Market, Offer
from srifty.core.plan import Plan, PlanResult

_S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """What the policy weighs with.

    Attributes:
        pace: how the pace is measured.
        pools: how pools are judged.
        least_gain: part of the objective that a move must gain, its switching costs paid, while
            the plan in force keeps its limits.
        look_s: seconds after which the policy is asked again at the latest.
        interruptions_kept: interruptions for which time is left when cheap VMs are waited for:
            once nothing but VMs that nobody reclaims can save the deadline, there must be time
            left to move to cheap ones again, and to lose them.
        slack_worth: price of a second of slack, as a part of what a second of the fallback costs
            more than one on the cheap VMs.
    """

    pace: PaceRule = field(default_factory=PaceRule)
    pools: PoolRule = field(default_factory=PoolRule)
    least_gain: float = 0.05
    look_s: float = 60.0
    interruptions_kept: int = 4
    slack_worth: float = 0.2

    def __post_init__(self) -> None:
        require_fraction("least gain", self.least_gain)
        require_positive("look_s", self.look_s)
        require_count("interruptions kept", self.interruptions_kept, least=0)
        require_fraction("slack worth", self.slack_worth)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that could be gone on with.

    Attributes:
        config: what would be rented.
        iteration_s: expected seconds of an iteration.
        spread_s: standard deviation of what does not average out over iterations.
        usd_per_hour: price of all its VMs, for an hour.
        vms: VMs by pool.
        is_firm: whether nobody reclaims any of its VMs.
    """

    config: ClusterConfig
    iteration_s: float
    spread_s: float
    usd_per_hour: float
    vms: Mapping[Pool, int]
    is_firm: bool

    @classmethod
    def of(cls, config: ClusterConfig, iteration_s: float, spread_s: float = 0.0) -> Candidate:
        """Returns a candidate; prices and pools are those of the configuration.

        Raises:
            InputError: an iteration takes no time.
        """
        require_positive("iteration_s", iteration_s)
        require_not_negative("spread_s", spread_s)
        vms: dict[Pool, int] = {}
        for group in config.groups:
            pool = Pool.of(group.offer)
            vms[pool] = vms.get(pool, 0) + group.count
        is_firm = all(pool.market is not Market.SPOT for pool in vms)
        return cls(config, iteration_s, spread_s, config.usd_per_hour, vms, is_firm)

    @property
    def has_passes(self) -> bool:
        """Whether some workers make several passes in a step, which not every script can."""
        return any(group.accumulation > 1 for group in self.config.groups)

    @classmethod
    def of_plan(cls, plan: Plan) -> Candidate:
        """Returns a plan of the planner's as a candidate."""
        iteration = plan.forecast.iteration
        return cls.of(plan.config, iteration.mean_s, iteration.persistent_std_s)


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a run stands.

    Attributes:
        now_s: seconds since the command.
        iterations_left: iterations still to be made, counted from where training goes on: from
            what is done while it runs, from the newest durable checkpoint after a loss.
        at_risk: iterations done that no durable checkpoint holds.
        spent_usd: dollars spent so far.
        running: what trains now, after a loss the survivors; None: nothing does.
        is_idle: whether `running` does not train at present, but could: its workers would have to
            be started first.
        ordered: what was last decided on; None: nothing. Differs from `running` while VMs boot.
        ready: VMs that run, by pool.
        booting: VMs under launch, by pool.
        boot_left_s: seconds until the last of them is expected to run.
        pace: measured pace of `running`; None while too little is known.
        alarm: whether the pace has missed a limit long enough (`Watch.is_alarm`).
        slow_vm: the VM to blame for that, and its pool; None where none is.
        blame: what a slow-down comes from; None where nothing is known to be slow.
        has_begun: whether anything was decided before.
    """

    now_s: float
    iterations_left: float
    spent_usd: float = 0.0
    at_risk: float = 0.0
    running: Candidate | None = None
    is_idle: bool = False
    ordered: Candidate | None = None
    ready: Mapping[Pool, int] = field(default_factory=dict[Pool, int])
    booting: Mapping[Pool, int] = field(default_factory=dict[Pool, int])
    boot_left_s: float = 0.0
    pace: Pace | None = None
    alarm: bool = False
    slow_vm: tuple[str, Pool] | None = None
    blame: Blame | None = None
    has_begun: bool = True

    def __post_init__(self) -> None:
        for name in ("now_s", "iterations_left", "spent_usd", "at_risk", "boot_left_s"):
            require_not_negative(f"situation: {name}", getattr(self, name))
        require(
            not self.alarm or (self.running is not None and not self.is_idle),
            "situation: nothing runs, so no pace can have missed a limit",
        )


def remaining_job(job: Job, progress: Progress) -> Job | None:
    """Returns what is still to be planned: `N −= n`, `budget −= spent`, `deadline −= elapsed`.

    `n` is the iteration of the newest durable checkpoint, and set-up includes restoring it. None
    where nothing is left to do, or the deadline has passed, or the money is spent.
    """
    left = job.iterations - int(progress.durable_iteration)
    limits = job.limits
    deadline_s = None if limits.deadline_s is None else limits.deadline_s - progress.at_s
    budget_usd = None if limits.budget_usd is None else limits.budget_usd - progress.spent_usd
    if left <= 0 or any(limit is not None and limit <= 0 for limit in (deadline_s, budget_usd)):
        return None
    overheads = job.overheads
    setup_s = overheads.setup_s + (overheads.restore_s if progress.durable_iteration else 0.0)
    return replace(
        job,
        iterations=left,
        limits=replace(limits, deadline_s=deadline_s, budget_usd=budget_usd),
        overheads=replace(overheads, setup_s=setup_s),
    )


def least_pace(job: Job, progress: Progress, usd_per_hour: float) -> float:
    """Returns the iterations per second that keep all limits from here on; 0 without limits.

    Args:
        job: the whole job; its limits count from the command.
        progress: how far it is.
        usd_per_hour: price of what trains.
    """
    left = max(job.iterations - progress.iteration, 0.0)
    pauses_s = job.overheads.billed_s(int(left)) - job.overheads.setup_s
    time_s = math.inf
    if job.limits.deadline_s is not None:
        time_s = job.limits.deadline_s - progress.at_s
    usd_per_s = (usd_per_hour + job.extra_usd_per_hour) / _S_PER_HOUR
    if job.limits.budget_usd is not None and usd_per_s > 0:
        time_s = min(time_s, (job.limits.budget_usd - progress.spent_usd) / usd_per_s)
    if left == 0:
        return 0.0
    return left / (time_s - pauses_s) if time_s > pauses_s else math.inf


def offers_left(
    offers: Sequence[Offer], pools: Pools, held: Mapping[Pool, int], now_s: float
) -> tuple[Offer, ...]:
    """Returns the offers with what their pools still give: a closed one no more than is held."""
    return tuple(
        offer
        if pools.is_open(Pool.of(offer), now_s)
        else replace(offer, quota=min(offer.quota, held.get(Pool.of(offer), 0)))
        for offer in offers
    )


def candidates_of(result: PlanResult) -> tuple[Candidate, ...]:
    """Returns the plans of a planner's answer worth going on with: its ranking and its front."""
    plans = {plan.config: plan for plan in (*result.ranking, *result.front)}
    return tuple(Candidate.of_plan(plan) for plan in plans.values())
