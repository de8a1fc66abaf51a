"""Plans and the planner's answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from srifty.core.cluster import ClusterConfig
from srifty.core.forecast import JobForecast


class Verdict(Enum):
    """How a search ended; each value is a full sentence. No plan is an answer, not an error."""

    OPTIMAL = "This is the best plan that the forecast model knows."
    INCOMPLETE = "This is the best plan found; not every configuration was looked at."
    NO_CONFIGURATION = (
        "No cluster configuration serves the global batch with these offers, quotas and batches."
    )
    LIMITS_TOO_TIGHT = "No cluster configuration meets the limits at the asked confidence."

    @property
    def is_feasible(self) -> bool:
        """Whether there is a plan."""
        return self in (Verdict.OPTIMAL, Verdict.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster configuration and what to expect of it.

    Attributes:
        config: what to rent and who processes what.
        forecast: time and cost of the whole job.
    """

    config: ClusterConfig
    forecast: JobForecast


class ReasonKind(Enum):
    """What a reason is about."""

    DEADLINE = "deadline"
    BUDGET = "budget"
    CONFIDENCE = "confidence"
    QUOTA = "quota"
    RESERVATION = "reservation"
    MEMORY = "memory"
    BATCH = "batch"
    PROFILE = "profile"
    FORECAST = "forecast"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why there is no plan (or no better one), and the nearest value that would do.

    Attributes:
        kind: which limit.
        message: a full sentence.
        nearest: the nearest value of that limit that would work, in the limit's unit (seconds,
            dollars, a fraction, VMs); None where no value helps.
        subject: what the limit belongs to, such as the instance type of a quota.
    """

    kind: ReasonKind
    message: str
    nearest: float | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Marginal:
    """What a little more of one thing buys.

    Attributes:
        message: a full sentence.
        plan: the plan that the little more pays for.
        extra_usd: dollars more than the chosen plan (negative: fewer).
        extra_s: seconds more than the chosen plan (negative: fewer).
    """

    message: str
    plan: Plan
    extra_usd: float
    extra_s: float


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The planner's answer.

    Attributes:
        verdict: how the search ended.
        plan: the chosen plan; None where there is none.
        ranking: the best plans by the objective, the chosen one first.
        front: the plans that no other beats in both expected time and expected cost, fastest
            first, limits aside.
        knee: index in `front` of the plan where another dollar begins to buy little; None without
            a front.
        marginals: what a dollar or a minute more would buy.
        nearest: where there is no plan, the one most likely to meet the limits.
        reasons: where there is no plan, which limits bind and what would work.
        warnings: what a user should look at before renting.
        assumptions: what the forecast takes for granted.
        method: name of the search.
        considered: configurations with equal local batches that were looked at.
        considered_remainder: further ones whose local batches differ by one.
        proved_optimal: whether no configuration of the search space is better.
        gap: by which share of its objective the plan can be beaten at most; 0 where it is proved
            optimal, None where nothing is proved or there is no plan.
        seconds: how long the search took.
    """

    verdict: Verdict
    plan: Plan | None
    ranking: tuple[Plan, ...]
    front: tuple[Plan, ...]
    knee: int | None
    marginals: tuple[Marginal, ...]
    nearest: Plan | None
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    method: str
    considered: int
    considered_remainder: int
    proved_optimal: bool
    gap: float | None
    seconds: float
