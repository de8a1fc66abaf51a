"""PROFILE.json: one workload on one GPU type."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from srifty.core._checks import MOST_BYTES
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
from srifty.files._gradient_fields import GradientFile, ParameterFile
from srifty.files._json_text import load_json
from srifty.files._reading import (
    Count,
    FileModel,
    Name,
    problems_of,
    raise_problems,
)
from srifty.inputs import read_text

_KIND = "workload profile (PROFILE.json)"

# What becomes more than a field of the same name and value.
_PARTS = frozenset(
    {
        "format",
        "srifty",  # which version wrote it; a profile is the same whoever wrote it
        "gradients_estimated",
        "latencies",
        "gradients",
        "unused_parameters",
        "find_unused_parameters",
        "layers",
        "item",
        "peak_memory_bytes",
        "notes",
    }
)

Fraction = Annotated[float, Field(ge=0, le=1)]


class _LatencyFile(FileModel):
    makes = BatchLatency

    batch: int
    forward_s: float | None = None
    backward_s: float | None = None
    optimizer_s: float | None = None
    iteration_s: float | None = None
    std_s: float | None = None
    steps: int | None = None


class _LayerFile(FileModel):
    makes = Layer

    name: str
    flops: float
    bytes: float
    parameters: int


class _ItemFile(FileModel):
    makes = Item

    unit: Literal["sample", "sequence", "token"] = "sample"
    seq_len: int | None = None


class _ProfileFile(FileModel):
    format: Literal["srifty-profile/1"]
    srifty: Name | None = None
    workload: Name
    gpu: Name
    precision: Name = "unknown"
    measured_at: str | None = None
    source: str = ""
    software: dict[str, str] = Field(default_factory=dict)
    latencies: list[_LatencyFile]
    spatial_std_fraction: Fraction | None = None
    input_samples_per_s_per_vcpu: float | None = Field(default=None, gt=0)
    compile_s: float | None = Field(default=None, ge=0)
    item: _ItemFile = _ItemFile()
    max_batch: Count
    max_batch_evidence: MaxBatchEvidence = "estimated"
    verified_batches: tuple[Count, ...] = Field(default=(), strict=False)
    peak_memory_bytes: dict[str, int] = Field(default_factory=dict)
    min_batch: Count = 1
    batch_norm: bool = False
    gradients: list[GradientFile] | None = None
    gradients_estimated: bool = False
    unused_parameters: tuple[ParameterFile, ...] = Field(default=(), strict=False)
    find_unused_parameters: bool = False
    layers: tuple[_LayerFile, ...] = Field(default=(), strict=False)
    notes: tuple[str, ...] = Field(default=(), strict=False)
    estimated: bool = False
    interval_fraction: Fraction | None = None


def read_profile(path: Path) -> WorkloadProfile:
    """Returns the workload profile in a file.

    Raises:
        InputError: the file cannot be read, or is no profile; all its errors are reported together.
    """
    return parse_profile(read_text(path, _KIND), str(path))


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
    return tuple(parse_profile(entry.read_text(encoding="utf-8"), entry.name) for entry in found)


def _is_json(name: str) -> bool:
    return name.endswith(".json")


def parse_profile(text: str, source: str) -> WorkloadProfile:
    """Returns the profile that a PROFILE.json's text holds.

    Raises:
        InputError: it holds none; all that is wrong is reported together.
    """
    document: Any = load_json(text, source, _KIND)
    try:
        file = _ProfileFile.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
    return _build(file, source)


def _build(file: _ProfileFile, source: str) -> WorkloadProfile:
    """Returns the profile, once what concerns several of its parts is checked too."""
    problems: list[Problem] = []
    peak_memory: dict[int, int] = {}
    for batch, size in file.peak_memory_bytes.items():
        if batch.isdecimal() and len(batch) < 10 and 0 < size <= MOST_BYTES:
            peak_memory[int(batch)] = size
        else:
            problems.append(
                Problem(f"peak_memory_bytes.{batch}", "must map a batch size to bytes above 0")
            )
    schedule: GradientSchedule | None = None
    try:
        if file.gradients:
            schedule = GradientSchedule(
                tuple(Gradient(**dict(part)) for part in file.gradients),
                file.gradients_estimated,
                tuple(Gradient(**dict(part), ready=0.0) for part in file.unused_parameters),
                file.find_unused_parameters,
            )
        elif file.unused_parameters or file.find_unused_parameters:
            problems.append(
                Problem("unused_parameters", "need the gradients that they stand beside")
            )
    except InputError as error:
        problems += [Problem("gradients", problem.message) for problem in error.problems]
    plain = {name: value for name, value in file if name not in _PARTS}
    try:
        profile = WorkloadProfile(
            **plain,
            latencies=tuple(BatchLatency(**dict(part)) for part in file.latencies),
            gradients=schedule,
            layers=tuple(Layer(**dict(part)) for part in file.layers),
            item=Item(**dict(file.item)),
            peak_memory_bytes=peak_memory,
            notes=file.notes,
        )
    except InputError as error:
        raise InputError((*problems, *error.problems), source) from None
    raise_problems(problems, source)
    return profile
