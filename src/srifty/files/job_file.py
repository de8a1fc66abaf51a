"""JOB.yaml: the job, its limits, and what may be rented for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import yaml
from pydantic import BeforeValidator, Field, PlainValidator, ValidationError

from srifty.core._checks import MOST_BYTES, MOST_ITEMS
from srifty.core.hardware import InstanceType
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
from srifty.core.offers import Market
from srifty.core.profile import WorkloadProfile
from srifty.core.supply import PriceEntry, QuotaEntry, SupplyRequest
from srifty.errors import InputError, Problem
from srifty.files._reading import (
    Count,
    FileModel,
    Name,
    problems_of,
    raise_problems,
    read_count,
    read_text,
    shown,
)
from srifty.files.profile_file import builtin_profiles, read_profile
from srifty.units import GIB, MIB, parse_duration_s

_KIND = "job file (JOB.yaml)"
_BUILTIN = "builtin:"
_MOST_USD = 1e9
_T = TypeVar("_T")


@dataclass(frozen=True)
class JobFile:
    """What a job file says.

    Attributes:
        path: where it was read from.
        job: the job.
        supply: what may be rented.
        allreduce_samples: CSV file of allreduce samples; None: the built-in ones.
    """

    path: Path
    job: Job
    supply: SupplyRequest
    allreduce_samples: Path | None


def _duration(value: Any) -> float:
    if isinstance(value, str):
        return parse_duration_s(value)
    raise ValueError(f"must be a duration with a unit, such as 500s, 90m or 6h, not {shown(value)}")


def _limit(value: Any) -> float:
    seconds = _duration(value)
    if seconds <= 0:
        raise ValueError(f"must be above 0s, not {shown(value)}")
    return seconds


def _mapping_of_counts(value: dict[Any, Any], *keys: str) -> dict[str, int]:
    if set(value) != set(keys):
        raise ValueError(f"must have the keys {' and '.join(keys)}, not {shown(value)}")
    return {key: _count_at(key, value[key]) for key in keys}


def _count_at(key: str, value: Any) -> int:
    try:
        return read_count(value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


@dataclass(frozen=True, slots=True)
class _GlobalBatch:
    samples: int
    seq_len: int | None


def _global_batch(value: Any) -> _GlobalBatch:
    if isinstance(value, int) and not isinstance(value, bool):
        return _GlobalBatch(read_count(value), None)
    if isinstance(value, dict) and "sequences" in value:
        counts = _mapping_of_counts(cast("dict[Any, Any]", value), "sequences", "seq_len")
        return _GlobalBatch(counts["sequences"], counts["seq_len"])
    if isinstance(value, dict) and "tokens" in value:
        counts = _mapping_of_counts(cast("dict[Any, Any]", value), "tokens", "seq_len")
        sequences, rest = divmod(counts["tokens"], counts["seq_len"])
        if rest or not sequences:
            length = counts["seq_len"]
            near = " or ".join(str(n * length) for n in (sequences, sequences + 1) if n)
            raise ValueError(
                f"{counts['tokens']} tokens are no whole number of sequences of {length} tokens; "
                f"write {near}"
            )
        return _GlobalBatch(sequences, counts["seq_len"])
    raise ValueError(
        "must be a number of samples, {sequences: N, seq_len: L} or {tokens: N, seq_len: L}, "
        f"not {shown(value)}"
    )


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


def _some_types(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise ValueError(
            "must map instance types to numbers of VMs, such as {p3.8xlarge: 2}, "
            f"not {shown(value)}"
        )
    return cast("dict[Any, Any]", value)


def _quota(value: Any) -> dict[Market | None, int]:
    if isinstance(value, dict) and value:
        return {**_by_market(cast("dict[Any, Any]", value), _vms)}
    return {None: _vms(value)}


def _vms(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ITEMS:
        raise ValueError(
            "must be a number of VMs (0 or more) or a mapping of markets to numbers, "
            f"not {shown(value)}"
        )
    return value


def _prices(value: Any) -> dict[Market, float]:
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"must map markets to USD per hour, such as {{spot: 3.67}}, not {shown(value)}"
        )
    return _by_market(cast("dict[Any, Any]", value), _price)


def _price(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_USD:
        raise ValueError(f"must be USD per hour, above 0, not {shown(value)}")
    return float(value)


def _by_market(value: dict[Any, Any], read: Callable[[Any], _T]) -> dict[Market, _T]:
    """Returns what is said for each market; all that is wrong is named in one error."""
    found: dict[Market, _T] = {}
    messages: list[str] = []
    for name, entry in value.items():
        try:
            market = _market(name)
        except ValueError as error:
            messages.append(str(error))
            continue
        try:
            found[market] = read(entry)
        except ValueError as error:
            messages.append(f"{market}: {error}")
    if messages:
        raise ValueError("; ".join(messages))
    return found


def _market(value: Any) -> Market:
    if value in (Market.ON_DEMAND, Market.SPOT):
        return Market(value)
    raise ValueError(f"markets are on-demand and spot, not {shown(value)}")


def _markets(value: Any) -> tuple[Market, ...]:
    names: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not names:
        raise ValueError("must name at least one market: on-demand, spot")
    return tuple(dict.fromkeys(_market(name) for name in names))


def _not_yet(value: Any) -> None:
    del value
    raise ValueError("is not supported by this version; remove it")


Duration = Annotated[float, PlainValidator(_duration)]
Limit = Annotated[float, PlainValidator(_limit)]
NotYet = Annotated[None, PlainValidator(_not_yet)]


class _DeclaredFile(FileModel):
    """An instance type that the catalog does not know."""

    name: Name
    gpu: Name
    gpus: Count
    gpu_memory_gib: float = Field(gt=0, le=MOST_BYTES / GIB)
    vcpus: Count
    rated_gbit_per_s: float = Field(gt=0)
    cpu_vendor: Name | None = None
    nvlink: bool | None = None


class _OffersFile(FileModel):
    cloud: Name = "aws"
    region: Name = "us-east-1"
    zones: Literal["any"] = "any"
    markets: Annotated[tuple[Market, ...], PlainValidator(_markets)] = (Market.ON_DEMAND,)
    quota: Annotated[
        dict[str, Annotated[dict[Market | None, int], PlainValidator(_quota)]],
        BeforeValidator(_some_types),
    ]
    prices: dict[str, Annotated[dict[Market, float], PlainValidator(_prices)]] = Field(
        default_factory=dict
    )
    types: tuple[_DeclaredFile, ...] = Field(default=(), strict=False)
    vcpu_quota: NotYet = None
    prefer: NotYet = None
    reserved: NotYet = None
    owned: NotYet = None
    allow_cross_zone: NotYet = None


class _EvaluationFile(FileModel):
    every: Count
    takes: Duration


class _CheckpointFile(FileModel):
    every: Annotated[int | None, PlainValidator(_every)] = None
    takes: Duration


class _OverheadsFile(FileModel):
    launch: Duration = 150.0
    setup: Duration = 0.0
    restore: Duration = 5.0
    evaluation: _EvaluationFile | None = None
    checkpoint: _CheckpointFile | None = None


class _SyncFile(FileModel):
    mode: Annotated[SyncMode, BeforeValidator(lambda v: _enum(SyncMode, v))] = SyncMode.DDP
    bucket_mib: float = Field(default=25, gt=0, le=MOST_BYTES / MIB)
    first_bucket_mib: float = Field(default=1, gt=0, le=MOST_BYTES / MIB)
    slots: Annotated[int | None, PlainValidator(_slots)] = 1
    sharing: Annotated[Sharing, BeforeValidator(lambda v: _enum(Sharing, v))] = Sharing.SLOTS


def _enum(kind: type[StrEnum], value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(kind)
        raise ValueError(f"must be one of {names}, not {shown(value)}") from None


class _JobFile(FileModel):
    name: Name
    workload: Annotated[tuple[str, ...], PlainValidator(_workloads)]
    global_batch: Annotated[_GlobalBatch, PlainValidator(_global_batch)]
    iterations: Count | None = None
    epochs: Count | None = None
    dataset_size: Count | None = None
    minimize: Annotated[Objective, BeforeValidator(lambda v: _enum(Objective, v))] = Objective.COST
    batches: Annotated[BatchRule, BeforeValidator(lambda v: _enum(BatchRule, v))] = (
        BatchRule.POWER_OF_TWO
    )
    accumulate: bool = False
    deadline: Limit | None = None
    budget_usd: float | None = Field(default=None, gt=0)
    confidence: float = Field(default=0.9, ge=0.5, lt=1)
    offers: _OffersFile
    network: NotYet = None
    overheads: _OverheadsFile = _OverheadsFile()
    extra_usd_per_hour: float = Field(default=0.0, ge=0)
    gradient_sync: _SyncFile = _SyncFile()
    allreduce: str | None = None
    run: dict[str, Any] | None = None  # only `measure` and `run` read it


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, except that a key given twice is an error.

    A value that YAML recognises but cannot make, such as the date 2026-02-30, is an error of the
    line that it stands in.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return cast("Any", super().construct_object(node, deep))
        except ValueError:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{shown(node.value)} cannot be read as a value; quote it if it is a text",
                node.start_mark,
            ) from None


def _construct_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "keys must be plain", key_node.start_mark
            )
        if key in mapping:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is given twice", key_node.start_mark
            )
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def read_job(path: Path, changes: Sequence[str] = ()) -> JobFile:
    """Returns what a job file says, with the workload profiles it names.

    Args:
        path: the file.
        changes: settings such as `deadline=6h` or `offers.quota.p3.8xlarge=4` that replace the
            file's.

    Raises:
        InputError: the file cannot be read or is wrong; all its errors are reported together.
    """
    source = str(path)
    document: object = _load_yaml(read_text(path, _KIND), source, _KIND)
    if not isinstance(document, dict):
        raise InputError(
            f"must be a mapping of keys to values; a {_KIND} was expected, and srifty init writes "
            "one",
            source,
        )
    for change in changes:
        _apply_change(cast("dict[Any, Any]", document), change)
    try:
        file = _JobFile.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
    return _build(file, path)


def _load_yaml(text: str, source: str, kind: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f"line {at.line + 1}" if at else ""
        message = error.problem or error.context or "is not YAML"
        raise InputError([Problem(where, f"{message}; a {kind} was expected")], source) from None
    except yaml.reader.ReaderError as error:
        raise InputError(
            f"is not YAML (character {error.position + 1}: {error.reason}); a {kind} was expected",
            source,
        ) from None
    except RecursionError:
        raise InputError(f"is nested too deeply; a {kind} was expected", source) from None


def _apply_change(document: dict[Any, Any], change: str) -> None:
    """Sets one value: `key=value`, keys joined by dots; names such as `p3.8xlarge` keep theirs."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise InputError(f"--set takes key=value, such as deadline=6h, not {change!r}")
    value = _load_yaml(text, f"--set {path}", "value")
    parts = path.strip().split(".")
    node: Any = document
    parent = ""
    while True:
        key, rest = _next_key(cast("dict[Any, Any]", node), parts, parent)
        if not rest:
            node[key] = value
            return
        if parent == "quota" and isinstance(node.get(key), int):  # a bare number: each market's
            node[key] = {str(market): node[key] for market in (Market.ON_DEMAND, Market.SPOT)}
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node, parts, parent = node[key], rest, key


def _next_key(node: dict[Any, Any], parts: list[str], parent: str) -> tuple[str, list[str]]:
    """Returns the key that a dotted path names at this level, and what is left of the path."""
    for length in range(len(parts), 0, -1):
        joined = ".".join(parts[:length])
        if joined in node:
            return joined, parts[length:]
    if parent in ("quota", "prices"):  # below these, keys are instance types, then markets
        markets = {str(market) for market in Market}
        end = len(parts) - 1 if parts[-1] in markets else len(parts)
        return ".".join(parts[:end]), parts[end:]
    return parts[0], parts[1:]


def _build(file: _JobFile, path: Path) -> JobFile:
    """Returns the core's values, with all further errors reported together."""
    problems: list[Problem] = []
    profiles = _profiles(file, path, problems)
    iterations = _iterations(file, problems)
    samples: Path | None = None
    if file.allreduce is not None:
        samples = path.parent / file.allreduce
        if not samples.is_file():
            problems.append(Problem("allreduce", f"there is no file {samples}"))
    declared: list[InstanceType] = []
    for index, part in enumerate(file.offers.types):
        try:
            declared.append(
                InstanceType(
                    name=part.name,
                    cloud=file.offers.cloud,
                    gpu=part.gpu,
                    gpus=part.gpus,
                    gpu_memory_bytes=round(part.gpu_memory_gib * GIB),
                    vcpus=part.vcpus,
                    rated_gbit_per_s=part.rated_gbit_per_s,
                    cpu_vendor=part.cpu_vendor,
                    nvlink=part.nvlink,
                    source="declared in the job",
                )
            )
        except InputError as error:
            problems.append(Problem(f"offers.types.{index}", str(error)))
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
                evaluation_every=evaluation.every if evaluation else None,
                evaluation_s=evaluation.takes if evaluation else 0.0,
                checkpoint_every=checkpoint.every if checkpoint else None,
                checkpoint_s=checkpoint.takes if checkpoint else 0.0,
            ),
            sync=GradientSync(
                mode=sync.mode,
                bucket_bytes=max(round(sync.bucket_mib * MIB), 1),
                first_bucket_bytes=max(round(sync.first_bucket_mib * MIB), 1),
                slots=sync.slots,
                sharing=sync.sharing,
            ),
            extra_usd_per_hour=file.extra_usd_per_hour,
        )
        supply = SupplyRequest(
            cloud=file.offers.cloud,
            region=file.offers.region,
            markets=file.offers.markets,
            quota=tuple(
                QuotaEntry(name, market, vms)
                for name, by_market in file.offers.quota.items()
                for market, vms in by_market.items()
            ),
            prices=tuple(
                PriceEntry(name, market, usd)
                for name, by_market in file.offers.prices.items()
                for market, usd in by_market.items()
            ),
            declared=tuple(declared),
        )
    except InputError as error:
        raise InputError(error.problems, str(path)) from None
    return JobFile(path, job, supply, samples)


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
