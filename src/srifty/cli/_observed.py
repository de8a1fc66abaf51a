"""Observed iteration times as the models take them: workloads, gradients, instance types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from srifty.allreduce.learned import LearnedModel
from srifty.calibration import (
    ObservedWorkload,
    calibrate_together,
    calibrated,
    even_schedule,
    observed_workload,
)
from srifty.catalog import builtin_instance_types
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.core.profile import GradientSchedule, WorkloadProfile
from srifty.errors import InputError, Problem
from srifty.files import (
    ObservedIterations,
    builtin_profiles,
    builtin_workloads,
    read_iterations,
)
from srifty.simulator import Simulator
from srifty.units import GIB, KIB, MIB

# What public traces call workloads that we have samples of.
_ALSO_CALLED = {
    "imagenet": "resnet50",
    "cifar10": "resnet18-cifar",
    "bert": "bert-base",
    "ncf": "neumf",
}
# Model sizes are stated in powers of 1000 as often as of 1024.
_BYTES_PER = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": KIB, "MIB": MIB, "GIB": GIB}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMG]?I?B)?", re.IGNORECASE | re.ASCII)
# A stated size this near to a built-in workload's is that workload's.
_SAME_SIZE = 0.05
_GUESSED_BYTES = 100_000_000
# The network of a type that is not in the catalog: where its calibration starts.
_GUESSED_GBIT_PER_S = 25.0


@dataclass(frozen=True)
class GradientSource:
    """What a workload exchanges, and how that is known.

    Attributes:
        schedule: the gradients.
        origin: where it comes from, for people.
        size_known: whether the size is known rather than guessed.
    """

    schedule: GradientSchedule
    origin: str
    size_known: bool


@dataclass(frozen=True)
class Observed:
    """A file of iteration times, ready to learn from.

    Attributes:
        observations: its rows.
        workloads: the workloads that have one-GPU rows, by name.
        gradients: what each workload exchanges, by name.
        kinds: the instance types by name.
        notes: what is to be said of the file, in full sentences.
    """

    observations: tuple[Observation, ...]
    workloads: Mapping[str, ObservedWorkload]
    gradients: Mapping[str, GradientSource]
    kinds: Mapping[str, InstanceType]
    notes: tuple[str, ...]


def open_observed(
    path: Path,
    sizes: Sequence[str] = (),
    own_kinds: Iterable[InstanceType] = (),
    own_profiles: Sequence[WorkloadProfile] = (),
) -> Observed:
    """Returns a file of iteration times with all that is known of its workloads and types.

    Args:
        path: the CSV file.
        sizes: gradient sizes that were stated beside it, `WORKLOAD=SIZE`.
        own_kinds: instance types that count before the built-in ones.
        own_profiles: profiles of the job that is planned: they know its gradients.

    Raises:
        InputError: the file or a size is wrong.
    """
    file = read_iterations(path)
    rows = file.observations
    names = list(dict.fromkeys(row.workload for row in rows))
    stated = _stated_sizes(sizes, names)
    gradients = {name: _gradients(name, file, stated, own_profiles) for name in names}
    notes = _not_read(file)
    known = builtin_instance_types() | {kind.name: kind for kind in own_kinds}
    kinds, about_kinds = _kinds(file, known, path)
    notes += about_kinds
    workloads: dict[str, ObservedWorkload] = {}
    for name, source in gradients.items():
        found = observed_workload(name, rows, source.schedule, size_known=source.size_known)
        if found is None:
            notes.append(f"{name} has no one-GPU row, so that its rows are left out.")
        else:
            workloads[name] = found
        if not source.size_known:
            notes.append(
                f"The gradients of {name} are guessed at {_GUESSED_BYTES / 1e6:.0f} MB; state them "
                f"in a column gradient_bytes, or with evaluate --gradient-bytes {name}=SIZE."
            )
    if file.spread_rows:
        notes.append(
            f"{file.spread_rows:,} rows have no placement: their workers are spread over the VMs "
            "as evenly as possible."
        )
    return Observed(rows, workloads, gradients, kinds, tuple(notes))


def builtin_name(workload: str) -> str | None:
    """Returns the built-in workload that a name stands for; None where there is none."""
    name = _ALSO_CALLED.get(workload, workload)
    return name if name in builtin_workloads() else None


def calibrated_simulator_of(
    simulator: Simulator,
    learned: LearnedModel,
    profiles: Sequence[WorkloadProfile],
    kinds: Iterable[InstanceType],
    path: Path,
) -> tuple[Simulator, tuple[str, ...]]:
    """Returns a job's simulator with its links calibrated, and what is to be said of it.

    Args:
        simulator: the simulator before anything was observed.
        learned: its allreduce model.
        profiles: the job's, of one workload.
        kinds: the instance types that the job may use.
        path: the file of iteration times.

    Raises:
        InputError: the file is wrong, or has no rows with several VMs of one of the types.
    """
    offered = {kind.name: kind for kind in kinds}
    observed = open_observed(path, own_kinds=offered.values(), own_profiles=profiles)
    seen = {
        row.instance_type
        for row in observed.observations
        if row.vms > 1 and row.workload in observed.workloads
    }
    prior = learned.without_relatives(seen)
    known = [kind for name, kind in offered.items() if name in seen]
    if not known:
        raise InputError(
            f"has no rows with several VMs of an offered type ({', '.join(offered)}), of a "
            "workload with one-GPU rows: nothing can be learned from it",
            str(path),
        )
    calibrations = calibrate_together(known, observed.observations, observed.workloads, prior)
    workload = profiles[0].workload
    ours = builtin_name(workload)
    names = [name for name in observed.workloads if ours and builtin_name(name) == ours]
    name = workload if workload in observed.workloads else next(iter(names), None)
    latency = dict(simulator.latency)
    for one in reversed(calibrations):  # the first type of a GPU model decides its spread
        gpu = one.instance_type.gpu
        if gpu in latency:
            latency[gpu] = one.latency(simulator.latency[gpu], name)
    allreduce = calibrated(prior, calibrations, name)
    return replace(simulator, latency=latency, allreduce=allreduce), observed.notes


def _stated_sizes(sizes: Sequence[str], workloads: Sequence[str]) -> dict[str, int]:
    stated: dict[str, int] = {}
    problems: list[Problem] = []
    for text in sizes:
        name, equals, size = text.partition("=")
        if not equals or name not in workloads:
            known = ", ".join(workloads)
            problems.append(Problem("", f"must be WORKLOAD=SIZE with one of {known}, not {text!r}"))
            continue
        try:
            stated[name] = _size_bytes(size)
        except ValueError as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise InputError(problems, "--gradient-bytes")
    return stated


def _size_bytes(text: str) -> int:
    """Returns the bytes of a size such as `102MB`, `97.5MiB` or `437000000`.

    Raises:
        ValueError: the text is no size, or less than one byte.
    """
    match = _SIZE.fullmatch(text.strip())
    count = round(float(match[1]) * _BYTES_PER[(match[2] or "B").upper()]) if match else 0
    if count < 1:
        raise ValueError(f"{text!r} is not a size; write a number and a unit: 102MB, 97.5MiB")
    return count


def _not_read(file: ObservedIterations) -> list[str]:
    if not file.ignored:
        return []
    return [f"Columns that are not read: {', '.join(file.ignored)}."]


def _gradients(
    workload: str,
    file: ObservedIterations,
    stated: Mapping[str, int],
    own_profiles: Sequence[WorkloadProfile],
) -> GradientSource:
    """Returns what a workload exchanges: the job's profile, stated, in the file, built-in, guessed.

    Raises:
        InputError: the file contradicts the job's profile.
    """
    size = stated.get(workload) or file.gradient_bytes.get(workload)
    origin = "--gradient-bytes" if workload in stated else "column gradient_bytes"
    name = builtin_name(workload)
    gpus = [row.gpu.casefold() for row in file.observations if row.workload == workload]
    same = (workload, *((name,) if name else ()))
    own = [
        p
        for p in own_profiles
        if p.gradients is not None and (p.workload in same or builtin_name(p.workload) in same)
    ]
    profiles = [p for p in (builtin_profiles(name) if name else ()) if p.gradients is not None]
    profiles.sort(key=lambda profile: profile.gpu.casefold() not in gpus)
    known = own[0].gradients if own else profiles[0].gradients if profiles else None
    where = "the job's profile" if own else f"built-in {name}"
    if known is not None:
        if size is None:
            return GradientSource(known, where, size_known=True)
        if abs(size / known.total_bytes - 1) <= _SAME_SIZE:
            words = f"{origin}; order and ready times as {where}"
            return GradientSource(known, words, size_known=True)
        if own:
            raise InputError(
                f"{origin} of {workload} is {size:,}, but its profile has {known.total_bytes:,} "
                "bytes of gradients: correct one of them"
            )
    if size is not None:
        words = f"{origin}; ready evenly over the backward pass"
        return GradientSource(even_schedule(size), words, size_known=True)
    return GradientSource(even_schedule(_GUESSED_BYTES), "guessed", size_known=False)


def _kinds(
    file: ObservedIterations, known: Mapping[str, InstanceType], path: Path
) -> tuple[dict[str, InstanceType], list[str]]:
    """Returns the instance types by name, and what is to be said of them."""
    kinds: dict[str, InstanceType] = {}
    notes: list[str] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(row.instance_type for row in file.observations):
        rows = [row for row in file.observations if row.instance_type == name]
        most = max(max(row.gpus_used) for row in rows)
        kind = known.get(name)
        if kind is None:
            stated = file.rated_gbit_per_s.get(name)
            rate = stated or _GUESSED_GBIT_PER_S
            try:
                kinds[name] = InstanceType(name, "own", rows[0].gpu, most, 16 * GIB, 1, rate)
            except InputError as error:
                problems += error.problems
                continue
            if stated is None:
                notes.append(
                    f"{name} is not in the catalog: {rate:g} Gbit/s between VMs is where its "
                    "calibration starts; state its rate in a column rated_gbit_per_s."
                )
            continue
        kinds[name] = kind
        if most > kind.gpus:
            problems.append(
                Problem("", f"{name} has {kind.gpus} GPUs, but a placement uses {most} of one VM")
            )
        others = sorted({row.gpu for row in rows if row.gpu.casefold() != kind.gpu.casefold()})
        if others:
            notes.append(f"{name} has {kind.gpu} GPUs, but the file says {', '.join(others)}.")
    if problems:
        raise InputError(problems, str(path))
    return kinds, notes
