"""The job: what is to be trained, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from srifty.core._checks import (
    MOST_BYTES,
    require,
    require_count,
    require_not_negative,
    require_positive,
)
from srifty.core.profile import WorkloadProfile
from srifty.units import MIB


class Objective(StrEnum):
    """What a plan minimises; the expectation, not a quantile."""

    TIME = "time"
    COST = "cost"


class BatchRule(StrEnum):
    """Which local batches a plan may use."""

    POWER_OF_TWO = "power-of-two"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that must hold together, at the asked confidence.

    Attributes:
        deadline_s: seconds from the command to the last iteration, launch included; None: none.
        budget_usd: dollars for the whole run; None: none.
        confidence: chance, below 1, that both limits hold; 0.5 judges by the mean.
    """

    deadline_s: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if self.deadline_s is not None:
            require_positive("deadline", self.deadline_s)
        if self.budget_usd is not None:
            require_positive("budget_usd", self.budget_usd)
        require(
            0.5 <= self.confidence < 1.0,
            f"confidence must lie between 0.5 (the mean) and 1 (exclusive), not {self.confidence}",
        )


@dataclass(frozen=True, slots=True)
class Overheads:
    """Seconds that a job spends on other things than iterations.

    Attributes:
        launch_s: from the request to the last VM running; not billed.
        setup_s: from running to the first iteration; billed.
        restore_s: loading a checkpoint.
        evaluation_every: iterations between two evaluations; None: none.
        evaluation_s: seconds that one evaluation takes.
        checkpoint_every: iterations between two checkpoints; None: none.
        checkpoint_s: seconds for which one checkpoint stops the training.
    """

    launch_s: float = 150.0
    setup_s: float = 0.0
    restore_s: float = 5.0
    evaluation_every: int | None = None
    evaluation_s: float = 0.0
    checkpoint_every: int | None = None
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("launch_s", "setup_s", "restore_s", "evaluation_s", "checkpoint_s"):
            require_not_negative(f"overheads: {name}", getattr(self, name))
        for name in ("evaluation_every", "checkpoint_every"):
            every: int | None = getattr(self, name)
            if every is not None:
                require_count(f"overheads: {name}", every)

    def billed_s(self, iterations: int) -> float:
        """Returns the billed seconds that a run of `iterations` spends beside its iterations."""
        evaluations = iterations // self.evaluation_every if self.evaluation_every else 0
        checkpoints = iterations // self.checkpoint_every if self.checkpoint_every else 0
        return self.setup_s + evaluations * self.evaluation_s + checkpoints * self.checkpoint_s


class SyncMode(StrEnum):
    """Which tensors are exchanged together."""

    DDP = "ddp"
    PER_LAYER = "per-layer"


class Sharing(StrEnum):
    """How concurrent transfers share the network."""

    SLOTS = "slots"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class GradientSync:
    """How gradients are exchanged.

    Attributes:
        mode: buckets as DistributedDataParallel makes them, or every tensor by itself.
        bucket_bytes: cap of a bucket; it closes when it reaches the cap.
        first_bucket_bytes: cap of the first bucket.
        slots: transfers that run at a time (1: NCCL; 2: gloo's default); None: unlimited.
        sharing: `slots`, or the rule of the paper (unlimited admission).
        find_unused_parameters: whether DistributedDataParallel is called with it, which keeps the
            order of registration; None: where the profile says that it is needed.
    """

    mode: SyncMode = SyncMode.DDP
    bucket_bytes: int = 25 * MIB
    first_bucket_bytes: int = 1 * MIB
    slots: int | None = 1
    sharing: Sharing = Sharing.SLOTS
    find_unused_parameters: bool | None = None

    def __post_init__(self) -> None:
        require_count("gradient_sync: bucket", self.bucket_bytes, most=MOST_BYTES)
        require_count("gradient_sync: first bucket", self.first_bucket_bytes, most=MOST_BYTES)
        if self.slots is not None:
            require_count("gradient_sync: slots", self.slots)


@dataclass(frozen=True, slots=True)
class Job:
    """A training job with a fixed global batch.

    Attributes:
        name: for people.
        profiles: the workload on each GPU model that may be used, one per model.
        global_batch: samples in one optimizer step; never changed.
        iterations: optimizer steps.
        objective: what to minimise.
        limits: deadline, budget, confidence.
        overheads: launch, set-up, evaluation, checkpoints.
        sync: how gradients are exchanged.
        batch_rule: which local batches may be used.
        accumulate: whether plans with several passes per iteration compete with the others; False:
            only where no plan with one pass meets the limits.
        extra_usd_per_hour: disks and storage, per hour of the whole job.
    """

    name: str
    profiles: tuple[WorkloadProfile, ...]
    global_batch: int
    iterations: int
    objective: Objective = Objective.COST
    limits: Limits = field(default_factory=Limits)
    overheads: Overheads = field(default_factory=Overheads)
    sync: GradientSync = field(default_factory=GradientSync)
    batch_rule: BatchRule = BatchRule.POWER_OF_TWO
    extra_usd_per_hour: float = 0.0
    accumulate: bool = False

    def __post_init__(self) -> None:
        require_count("global_batch", self.global_batch)
        require_count("iterations", self.iterations)
        require_not_negative("extra_usd_per_hour", self.extra_usd_per_hour)
        require(bool(self.profiles), "a job needs at least one workload profile")
        gpus = [profile.gpu for profile in self.profiles]
        require(
            len(set(gpus)) == len(gpus),
            f"a job takes one profile per GPU model, but has {', '.join(gpus)}",
        )
        workloads = sorted({profile.workload for profile in self.profiles})
        require(
            len(workloads) == 1,
            f"all profiles of a job must be of one workload, not of {', '.join(workloads)}",
        )

    def profile_for(self, gpu: str) -> WorkloadProfile | None:
        """Returns the profile measured on the GPU model, or None."""
        return next((profile for profile in self.profiles if profile.gpu == gpu), None)
