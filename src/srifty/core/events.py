"""What happens to a run: progress, events of its VMs, and what was decided upon them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from srifty.core._checks import (
    MOST_ITEMS,
    require,
    require_count,
    require_not_negative,
)
from srifty.core.cluster import ClusterConfig
from srifty.core.offers import Location, Market, Offer


@dataclass(frozen=True, slots=True)
class Pool:
    """Where VMs come from: what runs dry together, and recovers together.

    Attributes:
        instance_type: the type's name.
        location: the zone (or region) it is taken from.
        market: how it is paid for.
    """

    instance_type: str
    location: Location
    market: Market

    @classmethod
    def of(cls, offer: Offer) -> Pool:
        """Returns the pool that an offer is served from."""
        return cls(offer.instance_type.name, offer.location, offer.market)

    def __str__(self) -> str:
        return f"{self.instance_type} ({self.market}, {self.location})"


class VmEventKind(StrEnum):
    """What happened to a VM.

    `LAUNCHED`: it runs, and is billed from now on. `FAILED`: it never will. `NOTICE`: it is going
    to be taken back. `PREEMPTED`: it was. `LOST`: nothing is heard of it, though it may still be
    billed. `RECOVERED`: it is heard of again. `TERMINATED`: the run ended it, or it ended itself.
    """

    LAUNCHED = "launched"
    FAILED = "failed"
    NOTICE = "notice"
    PREEMPTED = "preempted"
    LOST = "lost"
    RECOVERED = "recovered"
    TERMINATED = "terminated"


class LaunchFailure(StrEnum):
    """Why a VM could not be launched, which says what to do about it."""

    CAPACITY = "capacity"
    UNSUPPORTED = "unsupported"
    QUOTA = "quota"
    THROTTLED = "throttled"
    PERMISSION = "permission"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class VmEvent:
    """One thing that happened to one VM.

    Attributes:
        at_s: seconds since the command.
        kind: what happened.
        vm: the VM's name in this run.
        pool: where the VM came from, or was asked for.
        failure: why a launch failed; given with `FAILED` and with nothing else.
        detail: the provider's own words.
    """

    at_s: float
    kind: VmEventKind
    vm: str
    pool: Pool
    failure: LaunchFailure | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        require_not_negative("event: at_s", self.at_s)
        require(
            (self.failure is not None) == (self.kind is VmEventKind.FAILED),
            f"event {self.kind} of {self.vm}: a failed launch, and only that, says why it failed",
        )


@dataclass(frozen=True, slots=True)
class WorkerStep:
    """Where one worker's time goes, as a mean over its recent steps.

    Attributes:
        worker: its rank.
        vm: the VM it runs on.
        compute_s: input, forward, backward and optimizer, without any waiting for others.
        exchange_s: what the exchange adds to that, waiting for slower workers included.
    """

    worker: int
    vm: str
    compute_s: float
    exchange_s: float

    def __post_init__(self) -> None:
        require_count("worker", self.worker, least=0)
        require_not_negative(f"worker {self.worker}: compute_s", self.compute_s)
        require_not_negative(f"worker {self.worker}: exchange_s", self.exchange_s)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        at_s: seconds since the command.
        iteration: iterations done.
        durable_iteration: iterations that the newest durable checkpoint holds.
        spent_usd: dollars spent so far.
        paused_s: seconds, since the command, that announced pauses took (evaluations, checkpoints):
            they are no slow-down.
    """

    at_s: float
    iteration: float
    durable_iteration: float = 0.0
    spent_usd: float = 0.0
    paused_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("at_s", "iteration", "durable_iteration", "spent_usd", "paused_s"):
            require_not_negative(f"progress: {name}", getattr(self, name))
        require(
            self.durable_iteration <= self.iteration <= MOST_ITEMS,
            f"progress: a checkpoint of iteration {self.durable_iteration} cannot be newer than "
            f"iteration {self.iteration}",
        )


class DecisionKind(StrEnum):
    """What is to be done."""

    STAY = "stay"
    MOVE = "move"
    WAIT = "wait"
    STOP = "stop"


class Cause(StrEnum):
    """What a decision was made for; each value reads on after "because"."""

    FIRST = "the run begins"
    ON_COURSE = "the plan keeps its limits and nothing gains enough"
    CHEAPER = "another plan gains enough, its switching costs paid"
    LOST = "VMs were lost or could not be had"
    RETRY = "cheaper VMs may be had again"
    LIMIT = "the pace, seen at its best, would miss a limit"
    SLOW_VM = "one VM is slow, and another one pays"
    SLOW_NETWORK = "the network is slow and the pace, seen at its best, would miss a limit"
    NO_RETURN = "any later, VMs that nobody reclaims could not save the deadline"
    SLACK = "there is time to wait for cheaper VMs"
    NO_PLAN = "no plan meets all limits; the one that misses least goes on"
    MONEY = "the money is spent"


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, for what, and the figures it rests on.

    Attributes:
        at_s: seconds since the command.
        kind: what is to be done.
        cause: for what.
        config: what to rent from now on, or to go on with; None: nothing.
        train_on: whether the present VMs train on while new ones boot.
        replace: VMs that are not to be kept although their pool is.
        look_again_s: seconds since the command by which the policy wants to be asked again.
        numbers: name (with its unit) and value of each figure.
    """

    at_s: float
    kind: DecisionKind
    cause: Cause
    config: ClusterConfig | None
    look_again_s: float
    train_on: bool = True
    replace: tuple[str, ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        rents = self.kind in (DecisionKind.STAY, DecisionKind.MOVE)
        require(
            rents == (self.config is not None),
            f"decision to {self.kind}: only staying and moving have a configuration",
        )

    def number(self, name: str) -> float:
        """Returns one figure. Raises `KeyError` where the decision has none of that name."""
        return dict(self.numbers)[name]
