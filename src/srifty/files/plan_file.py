"""PLAN.json: what `srifty plan -o PLAN.json` wrote, read to be started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from srifty.core.offers import Location, Market
from srifty.core.settings import RunSettings
from srifty.core.written import WrittenGroup, WrittenPlan
from srifty.errors import InputError, Problem
from srifty.files._fields import choice
from srifty.files._json_text import load_json
from srifty.files._reading import Count, FileModel, Name, problems_of, raise_problems
from srifty.files._run_part import RunPart, settings_of
from srifty.inputs import read_text

_KIND = "plan (the JSON that srifty plan -o PLAN.json writes)"


class _LocationFile(FileModel):
    region: str
    zone: Name | None = None


class _GroupFile(FileModel):
    """A VM group; what is `Any` chose the plan and is not needed to start it."""

    instance_type: Name
    market: Annotated[Market, BeforeValidator(lambda v: choice(Market, v))]
    location: _LocationFile
    count: Count
    samples_per_vm: Count
    gpus_used: Count
    local_batch: tuple[Count, ...] = Field(strict=False)
    accumulation: Count
    cloud: Name | None = None
    gpu: Name | None = None
    gpus: Count | None = None
    vcpus: Count | None = None
    cpu_vendor: Any = None
    usd_per_hour_each: Any = None
    price_source: Any = None
    price_date: Any = None


class _PlanPart(FileModel):
    config: Name
    groups: tuple[_GroupFile, ...] = Field(strict=False, min_length=1)
    world_size: Count
    usd_per_hour: Any = None
    iteration_s: Any = None
    parts: Any = None
    time_s: Any = None
    cost_usd: Any = None
    traffic_usd: Any = None
    success_probability: Any = None
    interruptions: Any = None


class _PlanFile(FileModel):
    format: Literal["srifty-plan/1"]
    srifty: Name
    job: Name | None = None
    run: RunPart | None = None
    plan: _PlanPart | None
    message: str = ""
    verdict: Any = None
    ranking: Any = None
    front: Any = None
    knee: Any = None
    marginals: Any = None
    nearest: Any = None
    reasons: Any = None
    warnings: Any = None
    assumptions: Any = None
    method: Any = None
    considered: Any = None
    considered_remainder: Any = None
    proved_optimal: Any = None
    gap: Any = None
    seconds: Any = None
    cost_range_usd: Any = None
    explanations: Any = None
    request: Any = None
    scaling: Any = None
    timeline: Any = None


def read_plan(path: Path) -> WrittenPlan:
    """Returns the plan in a file.

    Raises:
        InputError: the file cannot be read, is no plan, or holds none because none met the limits;
            all its errors are reported together.
    """
    source = str(path)
    document: Any = load_json(read_text(path, _KIND), source, _KIND)
    if not isinstance(document, dict):
        raise InputError(f"must be a mapping of keys to values; a {_KIND} was expected", source)
    try:
        file = _PlanFile.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
    if file.plan is None:
        raise InputError(
            "holds no plan: none met the limits; change the job until srifty plan finds one",
            source,
        )
    problems: list[Problem] = []
    settings = RunSettings()
    try:
        settings = settings_of(file.run)
    except InputError as error:
        problems += error.problems
    groups = [
        group
        for place, part in enumerate(file.plan.groups)
        if (group := _group(part, f"plan.groups.{place}", problems)) is not None
    ]
    raise_problems(problems, source)
    try:
        plan = WrittenPlan(file.job or path.stem, file.plan.config, tuple(groups), settings)
    except InputError as error:
        raise InputError(error.problems, source) from None
    if plan.world_size != file.plan.world_size:
        message = f"is {file.plan.world_size}, but the groups have {plan.world_size} workers"
        raise InputError([Problem("plan.world_size", message)], source)
    return plan


def _group(part: _GroupFile, where: str, problems: list[Problem]) -> WrittenGroup | None:
    """Returns a group, or None where it contradicts itself, which is added to the problems."""
    found = len(problems)
    if len(part.local_batch) != part.gpus_used:
        message = f"lists {len(part.local_batch)} workers, but gpus_used is {part.gpus_used}"
        problems.append(Problem(f"{where}.local_batch", message))
    if sum(part.local_batch) != part.samples_per_vm:
        message = f"sums to {sum(part.local_batch)}, but samples_per_vm is {part.samples_per_vm}"
        problems.append(Problem(f"{where}.local_batch", message))
    if len(problems) > found:
        return None
    try:
        return WrittenGroup(
            instance_type=part.instance_type,
            market=part.market,
            location=Location(part.location.region, part.location.zone),
            count=part.count,
            local_batch=part.local_batch,
            accumulation=part.accumulation,
            gpus=part.gpus or part.gpus_used,
            vcpus=part.vcpus,
            cloud=part.cloud,
            gpu=part.gpu,
        )
    except InputError as error:
        problems += [Problem(where, problem.message) for problem in error.problems]
        return None
