"""PLAN.json in full: all that `srifty plan -o PLAN.json` says, read to be shown.

Quantities that JSON cannot hold (a time that is infinite) are null there, and None here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from srifty.errors import InputError
from srifty.files._json_text import load_json
from srifty.files._reading import Count, FileModel, Name, problems_of
from srifty.inputs import read_text

_KIND = "plan (the JSON that srifty plan -o PLAN.json writes)"
# What a page can show; plans with more than that are none of ours.
_MOST_ENTRIES = 10_000


def _not_too_many(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) > _MOST_ENTRIES:
        raise ValueError(f"has {len(values):,} entries; at most {_MOST_ENTRIES:,} can be shown")
    return values


_Listed = Field(strict=False)
_Short = AfterValidator(_not_too_many)
_Texts = Annotated[tuple[str, ...], _Listed, _Short]


class DistributionPart(FileModel):
    """A forecast quantity, in the unit that the name of its key says."""

    mean: float | None
    std: float | None
    p50: float | None
    p90: float | None
    p95: float | None


class IterationParts(FileModel):
    """Where one iteration's time goes, and how far each cause lets it spread; seconds."""

    forward_s: float
    backward_s: float
    exchange_s: float
    exposed_exchange_s: float
    optimizer_s: float
    input_s: float
    step_std_s: float
    allocation_std_s: float
    gpu_std_s: float
    model_std_s: float


class InterruptionsPart(FileModel):
    """What spot VMs that are taken away do to the job."""

    expected: float | None
    none_probability: float | None
    undisturbed_s: float | None
    lost_s: float | None
    checkpoint_every: int | None
    checkpoint_interval_s: float | None


class LocationPart(FileModel):
    """Where VMs are."""

    region: str
    zone: str | None


class GroupPart(FileModel):
    """VMs of one kind."""

    instance_type: Name
    cloud: str | None
    gpu: str
    gpus: Count
    vcpus: int | None
    cpu_vendor: str | None
    market: str
    location: LocationPart
    count: Count
    samples_per_vm: Count
    gpus_used: Count
    local_batch: Annotated[tuple[Count, ...], _Listed, _Short]
    accumulation: Count
    usd_per_hour_each: float
    price_source: str | None
    price_date: str | None


class PlanPart(FileModel):
    """A cluster configuration and its forecast."""

    config: Name
    groups: Annotated[tuple[GroupPart, ...], Field(strict=False, min_length=1), _Short]
    world_size: Count
    usd_per_hour: float
    iteration_s: DistributionPart
    parts: IterationParts
    time_s: DistributionPart
    cost_usd: DistributionPart
    traffic_usd: float
    success_probability: float
    interruptions: InterruptionsPart | None

    @property
    def vms(self) -> int:
        """Number of VMs."""
        return sum(group.count for group in self.groups)

    @property
    def samples(self) -> int:
        """Samples of one iteration: the global batch."""
        return sum(group.count * group.samples_per_vm for group in self.groups)


class MarginalPart(FileModel):
    """What a little more of one thing buys."""

    message: str
    config: str
    extra_usd: float | None
    extra_s: float | None


class ReasonPart(FileModel):
    """Why there is no plan."""

    kind: str
    message: str
    nearest: float | None
    subject: str | None


class ExplanationPart(FileModel):
    """What a plan with one thing changed says of the chosen one."""

    kind: Literal["binding", "worth", "runner-up", "sensitivity"]
    subject: str | None
    message: str
    config: str | None
    extra_usd: float | None
    extra_s: float | None
    parts: dict[str, float | None] | None


class BandPart(FileModel):
    """A quantity and where it lies eight times of ten."""

    mean: float | None
    p10: float | None
    p90: float | None


class ScalingPointPart(FileModel):
    """The best way to use so many VMs of a type."""

    vms: Count
    config: str
    samples_per_s: BandPart
    time_s: BandPart
    cost_usd: BandPart
    success_probability: float


class ScalingCurvePart(FileModel):
    """One instance type alone."""

    instance_type: str
    points: Annotated[tuple[ScalingPointPart, ...], _Listed, _Short]


class MeasuredPart(FileModel):
    """A throughput that somebody measured."""

    instance_type: str
    vms: Count
    samples_per_s: float


class ScalingPart(FileModel):
    """What more VMs do."""

    curves: Annotated[tuple[ScalingCurvePart, ...], _Listed, _Short]
    measured: Annotated[tuple[MeasuredPart, ...], _Listed, _Short]


class ComputeSpanPart(FileModel):
    """A pass or a step of one VM group's workers."""

    track: str
    name: str
    start_s: float
    duration_s: float


class TransferSpanPart(FileModel):
    """A transfer: when its gradients are there, and when it runs."""

    track: str
    name: str
    bytes: int
    ready_s: float
    start_s: float
    duration_s: float


class TimelinePart(FileModel):
    """One mean iteration."""

    iteration_s: float
    compute: Annotated[tuple[ComputeSpanPart, ...], _Listed, _Short]
    transfers: Annotated[tuple[TransferSpanPart, ...], _Listed, _Short]


class RequestPart(FileModel):
    """What was asked for, and in which file."""

    minimize: Literal["time", "cost"]
    global_batch: Count
    iterations: Count
    deadline_s: float | None
    budget_usd: float | None
    confidence: float
    launch_s: float
    extra_usd_per_hour: float
    job_file: str
    digest: str
    changes: _Texts
    batches: Literal["power-of-two", "any"]
    accumulate: bool


class PlanDocument(FileModel):
    """A PLAN.json."""

    format: Literal["srifty-plan/1"]
    srifty: Name
    verdict: str
    message: str
    plan: PlanPart | None
    ranking: Annotated[tuple[PlanPart, ...], _Listed, _Short]
    front: Annotated[tuple[PlanPart, ...], _Listed, _Short]
    knee: int | None
    marginals: Annotated[tuple[MarginalPart, ...], _Listed, _Short]
    nearest: PlanPart | None
    reasons: Annotated[tuple[ReasonPart, ...], _Listed, _Short]
    warnings: _Texts
    assumptions: _Texts
    method: str
    considered: int
    considered_remainder: int
    proved_optimal: bool
    gap: float | None
    seconds: float
    cost_range_usd: Annotated[tuple[float, float], _Listed] | None
    job: str
    run: Any
    request: RequestPart | None = None
    scaling: ScalingPart | None = None
    timeline: TimelinePart | None = None
    explanations: Annotated[tuple[ExplanationPart, ...], _Listed, _Short] = ()


def read_plan_document(path: Path) -> PlanDocument:
    """Returns all that a PLAN.json says.

    Raises:
        InputError: the file cannot be read, or is no plan that `srifty plan` wrote; all its errors
            are reported together.
    """
    source = str(path)
    document: Any = load_json(read_text(path, _KIND), source, _KIND)
    if not isinstance(document, dict):
        raise InputError(f"must be a mapping of keys to values; a {_KIND} was expected", source)
    try:
        return PlanDocument.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
