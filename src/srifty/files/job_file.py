"""JOB.yaml: the job, its limits, and what may be rented for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError

from srifty.core._checks import MOST_BYTES
from srifty.core.job import (
    BatchRule,
    GradientSync,
    Job,
    Limits,
    Objective,
    Overheads,
    Sharing,
    SyncMode,
)
from srifty.core.profile import WorkloadProfile
from srifty.core.settings import RunSettings
from srifty.core.supply import SupplyRequest
from srifty.errors import InputError, Problem
from srifty.files._fields import Duration, GlobalBatch, Limit, choice, global_batch
from srifty.files._offers_part import OffersPart, supply_of
from srifty.files._reading import (
    Count,
    FileModel,
    Name,
    problems_of,
    raise_problems,
    read_count,
    shown,
)
from srifty.files._run_part import RunPart, settings_of
from srifty.files._yaml import apply_change, load_yaml
from srifty.files.profile_file import builtin_profiles, read_profile
from srifty.inputs import read_text
from srifty.units import MIB

_KIND = "job file (JOB.yaml)"
_BUILTIN = "builtin:"
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?", re.ASCII)


def _switch(value: Any) -> str:
    # YAML 1.1 reads on and off as true and false.
    word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if word in ("on", "off", "auto"):
        return word
    raise ValueError(f"must be on, off or auto, not {shown(value)}")


def _version(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _VERSION.fullmatch(value)):
        return value
    # An unquoted 2.20 reaches us as the number 2.2.
    raise ValueError(f'must be a version in quotes, such as "2.21.5", not {shown(value)}')


Switch = Annotated[Literal["on", "off", "auto"], PlainValidator(_switch)]


class NetworkPart(FileModel):
    """What the run will use of the network; `auto`: what Srifty assumes, and says.

    `nccl` is the library's version: samples of that version are preferred.
    """

    efa: Switch = "auto"
    placement_group: Switch = "auto"
    nccl: Annotated[str | None, PlainValidator(_version)] = None


@dataclass(frozen=True)
class JobFile:
    """What a job file says.

    Attributes:
        path: where it was read from.
        job: the job.
        supply: what may be rented.
        allreduce_samples: store or CSV file of allreduce samples; None where the job names none.
        observed: CSV file of observed iteration times to calibrate links from; None: none.
        allow_cross_zone: whether one plan may use several zones.
        prefer: instance types, the most wanted first.
        network: which network features the run will use.
        settings: how the VMs of a run are set up.
        notes: how the file was read, where there was a choice; full sentences.
    """

    path: Path
    job: Job
    supply: SupplyRequest
    allreduce_samples: Path | None
    observed: Path | None
    allow_cross_zone: bool
    prefer: tuple[str, ...]
    network: NetworkPart
    settings: RunSettings
    notes: tuple[str, ...] = ()


def _workloads(value: Any) -> tuple[str, ...]:
    names: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(
            "must be a profile file, a list of them (one per GPU type), or builtin:NAME, "
            f"not {shown(value)}"
        )
    return tuple(cast("list[str]", names))


def _slots(value: Any) -> int | None:
    if value == "unlimited":
        return None
    try:
        return read_count(value)
    except ValueError:
        raise ValueError(
            "must be a number of concurrent transfers (1 NCCL, 2 gloo) or unlimited, "
            f"not {shown(value)}"
        ) from None


def _every(value: Any) -> int | None:
    return None if value == "auto" else read_count(value)


def _find_unused(value: Any) -> bool | None:
    if value == "auto":
        return None
    if isinstance(value, bool):
        return value
    raise ValueError(f"must be true, false or auto, not {shown(value)}")


class _EvaluationFile(FileModel):
    every: Count
    takes: Duration


class _CheckpointFile(FileModel):
    every: Annotated[int | None, PlainValidator(_every)] = None  # None: auto
    takes: Duration


class _OverheadsFile(FileModel):
    launch: Duration = 150.0
    setup: Duration = 0.0
    restore: Duration = 5.0
    detection: Duration = 30.0
    evaluation: _EvaluationFile | None = None
    checkpoint: _CheckpointFile | None = None


class _SyncFile(FileModel):
    mode: Annotated[SyncMode, BeforeValidator(lambda v: choice(SyncMode, v))] = SyncMode.DDP
    bucket_mib: float = Field(default=25, gt=0, le=MOST_BYTES / MIB)
    first_bucket_mib: float = Field(default=1, gt=0, le=MOST_BYTES / MIB)
    slots: Annotated[int | None, PlainValidator(_slots)] = 1
    sharing: Annotated[Sharing, BeforeValidator(lambda v: choice(Sharing, v))] = Sharing.SLOTS
    find_unused_parameters: Annotated[bool | None, PlainValidator(_find_unused)] = None


class _JobFile(FileModel):
    name: Name
    workload: Annotated[tuple[str, ...], PlainValidator(_workloads)]
    global_batch: Annotated[GlobalBatch, PlainValidator(global_batch)]
    iterations: Count | None = None
    epochs: Count | None = None
    dataset_size: Count | None = None
    minimize: Annotated[Objective, BeforeValidator(lambda v: choice(Objective, v))] = Objective.COST
    batches: Annotated[BatchRule, BeforeValidator(lambda v: choice(BatchRule, v))] = (
        BatchRule.POWER_OF_TWO
    )
    accumulate: bool = False
    deadline: Limit | None = None
    budget_usd: float | None = Field(default=None, gt=0)
    confidence: float = Field(default=0.9, ge=0.5, lt=1)
    offers: OffersPart
    network: NetworkPart = NetworkPart()
    overheads: _OverheadsFile = _OverheadsFile()
    extra_usd_per_hour: float = Field(default=0.0, ge=0)
    gradient_sync: _SyncFile = _SyncFile()
    allreduce: str | None = None
    observed: str | None = None
    run: RunPart | None = None


def read_job(path: Path, changes: Sequence[str] = (), *, now: datetime | None = None) -> JobFile:
    """Returns what a job file says, with the workload profiles it names.

    Args:
        path: the file.
        changes: settings such as `deadline=6h` or `offers.quota.p3.8xlarge=4` that replace the
            file's.
        now: the time from which the ends of reservations count; None: the clock's.

    Raises:
        InputError: the file cannot be read or is wrong; all its errors are reported together.
    """
    return _build(_read(path, changes), path, now or datetime.now(UTC))


def _read(path: Path, changes: Sequence[str]) -> _JobFile:
    """Returns a job file with changes, its parts checked each by itself."""
    source = str(path)
    document: object = load_yaml(read_text(path, _KIND), source, _KIND)
    if not isinstance(document, dict):
        raise InputError(
            f"must be a mapping of keys to values; a {_KIND} was expected, and srifty init writes "
            "one",
            source,
        )
    for change in changes:
        apply_change(cast("dict[Any, Any]", document), change)
    try:
        return _JobFile.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None


@dataclass(frozen=True)
class Rental:
    """What a job file says of VMs, whatever is to run on them.

    Attributes:
        name: the job's.
        workload: the names or files of its profiles, which need not exist.
        supply: what can be rented, and where.
        settings: how VMs are set up.
        launch_s: seconds that a VM is expected to boot.
        budget_usd: what the job may cost; None: nothing is said.
    """

    name: str
    workload: tuple[str, ...]
    supply: SupplyRequest
    settings: RunSettings
    launch_s: float
    budget_usd: float | None


def read_rental(path: Path, changes: Sequence[str] = ()) -> Rental:
    """Returns what a job file says of VMs; its profiles are not read.

    Raises:
        InputError: as `read_job` does.
    """
    file = _read(path, changes)
    try:
        supply = supply_of(file.offers, datetime.now(UTC), path.parent)
        settings = settings_of(file.run)
    except InputError as error:
        raise InputError(error.problems, str(path)) from None
    return Rental(
        file.name, file.workload, supply, settings, file.overheads.launch, file.budget_usd
    )


def _build(file: _JobFile, path: Path, now: datetime) -> JobFile:
    """Returns the core's values, with all further errors reported together."""
    problems: list[Problem] = []
    profiles = _profiles(file, path, problems)
    iterations = _iterations(file, problems)
    samples = _beside(path, "allreduce", file.allreduce, problems)
    observed = _beside(path, "observed", file.observed, problems)
    supply: SupplyRequest | None = None
    settings = RunSettings()
    try:
        supply = supply_of(file.offers, now, path.parent)
    except InputError as error:
        problems += error.problems
    try:
        settings = settings_of(file.run)
    except InputError as error:
        problems += error.problems
    raise_problems(problems, str(path))
    overheads = file.overheads
    evaluation, checkpoint = overheads.evaluation, overheads.checkpoint
    sync = file.gradient_sync
    try:
        job = Job(
            name=file.name,
            profiles=profiles,
            global_batch=file.global_batch.samples,
            iterations=iterations,
            objective=file.minimize,
            batch_rule=file.batches,
            accumulate=file.accumulate,
            limits=Limits(file.deadline, file.budget_usd, file.confidence),
            overheads=Overheads(
                launch_s=overheads.launch,
                setup_s=overheads.setup,
                restore_s=overheads.restore,
                detection_s=overheads.detection,
                evaluation_every=evaluation.every if evaluation else None,
                evaluation_s=evaluation.takes if evaluation else 0.0,
                checkpoint_every=checkpoint.every if checkpoint else None,
                checkpoint_s=checkpoint.takes if checkpoint else 0.0,
                checkpoint_auto=checkpoint is not None and checkpoint.every is None,
            ),
            sync=GradientSync(
                mode=sync.mode,
                bucket_bytes=max(round(sync.bucket_mib * MIB), 1),
                first_bucket_bytes=max(round(sync.first_bucket_mib * MIB), 1),
                slots=sync.slots,
                sharing=sync.sharing,
                find_unused_parameters=sync.find_unused_parameters,
            ),
            extra_usd_per_hour=file.extra_usd_per_hour,
        )
    except InputError as error:
        raise InputError(error.problems, str(path)) from None
    if supply is None:
        raise AssertionError("offers that could not be read have a problem")
    return JobFile(
        path,
        job,
        supply,
        allreduce_samples=samples,
        observed=observed,
        allow_cross_zone=file.offers.allow_cross_zone,
        prefer=file.offers.prefer,
        network=file.network,
        settings=settings,
        notes=_remainder(file, iterations),
    )


def _remainder(file: _JobFile, iterations: int) -> tuple[str, ...]:
    """Returns what is done about samples that fill no global batch, where there are any."""
    if file.epochs is None or file.dataset_size is None:
        return ()
    samples = file.global_batch.samples
    left = file.epochs * file.dataset_size % samples
    if not left:
        return ()
    return (
        f"The last of {iterations:,} iterations has {left:,} of {samples:,} samples: it is counted "
        "as a whole one, to be filled up or dropped; no smaller local batch is planned for it.",
    )


def _profiles(file: _JobFile, path: Path, problems: list[Problem]) -> tuple[WorkloadProfile, ...]:
    profiles: list[WorkloadProfile] = []
    for name in file.workload:
        try:
            if name.startswith(_BUILTIN):
                profiles += builtin_profiles(name.removeprefix(_BUILTIN))
            else:
                profiles.append(read_profile(path.parent / name))
        except InputError as error:
            for problem in error.problems:
                where = f"{error.source}: {problem}" if error.source else str(problem)
                problems.append(Problem("workload", where))
    seq_len = file.global_batch.seq_len
    for profile in profiles:
        known = profile.item.seq_len
        if seq_len is not None and known is not None and known != seq_len:
            problems.append(
                Problem(
                    "global_batch.seq_len",
                    f"is {seq_len}, but {profile.workload} on {profile.gpu} was measured with "
                    f"{known}",
                )
            )
    return tuple(profiles)


def _beside(path: Path, key: str, name: str | None, problems: list[Problem]) -> Path | None:
    """Returns a file that the job file names, relative to it; None where it names none."""
    if name is None:
        return None
    found = path.parent / name
    if not found.is_file():
        problems.append(Problem(key, f"there is no file {found}"))
    return found


def _iterations(file: _JobFile, problems: list[Problem]) -> int:
    """Returns the number of iterations, or 1 where that is itself a problem."""
    if file.iterations is not None:
        if file.epochs is not None or file.dataset_size is not None:
            problems.append(
                Problem("iterations", "give either iterations, or epochs and dataset_size")
            )
        return file.iterations
    if file.epochs is None or file.dataset_size is None:
        given = "epochs" if file.epochs is not None else "dataset_size"
        lone = file.epochs is not None or file.dataset_size is not None
        problems.append(
            Problem(
                "iterations",
                "is missing; give iterations, or epochs and dataset_size"
                + (f" (there is only {given})" if lone else ""),
            )
        )
        return 1
    return math.ceil(file.epochs * file.dataset_size / file.global_batch.samples)
