"""PROFILE.json: one workload on one GPU type."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from srifty.core.profile import (
    BatchLatency,
    Gradient,
    GradientSchedule,
    Item,
    Layer,
    MaxBatchEvidence,
    WorkloadProfile,
)
from srifty.errors import InputError, Problem
from srifty.files._reading import FileModel, problems_of, raise_problems, read_text

_T = TypeVar("_T")
_KIND = "workload profile (PROFILE.json)"


class _LatencyFile(FileModel):
    batch: int
    forward_s: float | None = None
    backward_s: float | None = None
    optimizer_s: float | None = None
    iteration_s: float | None = None
    std_s: float | None = None
    steps: int | None = None


class _GradientFile(FileModel):
    name: str
    bytes: int
    ready: float


class _LayerFile(FileModel):
    name: str
    flops: float
    bytes: float
    parameters: int


class _ItemFile(FileModel):
    unit: Literal["sample", "sequence", "token"] = "sample"
    seq_len: int | None = None


class _ProfileFile(FileModel):
    format: Literal["srifty-profile/1"]
    workload: str
    gpu: str
    precision: str = "unknown"
    measured_at: str | None = None
    source: str = ""
    software: dict[str, str] = Field(default_factory=dict)
    latencies: list[_LatencyFile]
    spatial_std_fraction: float | None = None
    input_samples_per_s_per_vcpu: float | None = None
    compile_s: float | None = None
    item: _ItemFile = _ItemFile()
    max_batch: int
    max_batch_evidence: MaxBatchEvidence = "estimated"
    peak_memory_bytes: dict[str, int] = Field(default_factory=dict)
    min_batch: int = 1
    gradients: list[_GradientFile] | None = None
    gradients_estimated: bool = False
    layers: tuple[_LayerFile, ...] = Field(default=(), strict=False)
    notes: tuple[str, ...] = Field(default=(), strict=False)
    estimated: bool = False
    interval_fraction: float | None = None


def read_profile(path: Path) -> WorkloadProfile:
    """Returns the workload profile in a file.

    Raises:
        InputError: the file cannot be read, or is no profile; all its errors are reported together.
    """
    return _parse(read_text(path, _KIND), str(path))


def builtin_workloads() -> tuple[str, ...]:
    """Returns the names of the workloads that Srifty ships samples of."""
    folder = resources.files("srifty").joinpath("data", "profiles")
    names = {entry.name.rsplit(".", 2)[0] for entry in folder.iterdir() if _is_json(entry.name)}
    return tuple(sorted(names))


def builtin_profiles(workload: str) -> tuple[WorkloadProfile, ...]:
    """Returns the shipped profiles of a workload, one per GPU model.

    Raises:
        InputError: there is no such workload.
    """
    folder = resources.files("srifty").joinpath("data", "profiles")
    entries = sorted(
        (entry for entry in folder.iterdir() if entry.name.startswith(f"{workload}.")),
        key=lambda entry: entry.name,
    )
    found = [entry for entry in entries if entry.name.rsplit(".", 2)[0] == workload]
    if not found:
        known = ", ".join(builtin_workloads())
        raise InputError(f"there is no built-in workload {workload!r}; there are: {known}")
    return tuple(_parse(entry.read_text(encoding="utf-8"), entry.name) for entry in found)


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def _parse(text: str, source: str) -> WorkloadProfile:
    try:
        document: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            f"a {_KIND} was expected",
            source,
        ) from None
    except RecursionError:
        raise InputError(f"is nested too deeply; a {_KIND} was expected", source) from None
    try:
        file = _ProfileFile.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
    return _build(file, source)


def _build(file: _ProfileFile, source: str) -> WorkloadProfile:
    """Returns the profile, with the errors of all its parts reported together."""
    problems: list[Problem] = []

    def make(where: str, kind: type[_T], fields: dict[str, Any]) -> _T | None:
        try:
            return kind(**fields)
        except InputError as error:
            problems.extend(Problem(where, problem.message) for problem in error.problems)
            return None

    latencies = [
        make(f"latencies.{i}", BatchLatency, part.model_dump())
        for i, part in enumerate(file.latencies)
    ]
    gradients = [
        make(f"gradients.{i}", Gradient, part.model_dump())
        for i, part in enumerate(file.gradients or [])
    ]
    layers = [make(f"layers.{i}", Layer, part.model_dump()) for i, part in enumerate(file.layers)]
    item = make("item", Item, file.item.model_dump())
    raise_problems(problems, source)
    schedule = (
        make(
            "gradients",
            GradientSchedule,
            {"gradients": tuple(gradients), "estimated": file.gradients_estimated},
        )
        if gradients
        else None
    )
    peak_memory: dict[int, int] = {}
    for batch, size in file.peak_memory_bytes.items():
        if batch.isdecimal() and size > 0:
            peak_memory[int(batch)] = size
        else:
            problems.append(
                Problem(f"peak_memory_bytes.{batch}", "must map a batch size to bytes above 0")
            )
    plain = file.model_dump(
        exclude={
            "format",
            "gradients_estimated",
            "latencies",
            "gradients",
            "layers",
            "item",
            "peak_memory_bytes",
            "notes",
        }
    )
    profile = make(
        "",
        WorkloadProfile,
        {
            **plain,
            "latencies": tuple(latencies),
            "gradients": schedule,
            "layers": tuple(layers),
            "item": item,
            "peak_memory_bytes": peak_memory,
            "notes": tuple(file.notes),
        },
    )
    raise_problems(problems, source)
    if profile is None:
        raise AssertionError("a profile that could not be made has a problem")
    return profile
