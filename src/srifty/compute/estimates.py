"""Profiles for GPUs that are not at hand: from measured ones where they help, else from layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from srifty.compute.memory import estimate_max_batch, fitting_batch
from srifty.compute.roofline import profile_from_layers
from srifty.compute.scaling import estimate_profile, is_host_bound
from srifty.core._checks import require
from srifty.core.hardware import GpuModel
from srifty.core.profile import WorkloadProfile
from srifty.core.work import StepWork
from srifty.errors import InputError


def estimate_profiles(
    gpus: Mapping[str, GpuModel],
    targets: Sequence[str],
    *,
    measured: Sequence[WorkloadProfile] = (),
    work: StepWork | None = None,
) -> tuple[WorkloadProfile, ...]:
    """Returns one profile per target; a target that was measured keeps its own.

    Measured curves of known GPUs are scaled (`estimate_profile`). Where there is none, or only
    such as the host rules (`is_host_bound`), the layers are counted (`profile_from_layers`); the
    profile's notes say why. A CPU's curve says nothing about a GPU.

    Args:
        gpus: the GPU models that are known, by name.
        targets: names of the GPUs to estimate; a repeat counts once.
        measured: measured profiles of the workload; they may name machines that `gpus` lacks.
        work: what was counted of the workload.

    Raises:
        InputError: an unknown target, a workload that does not fit in its memory, neither useful
            curve nor layers, or profiles of several workloads.
    """
    require(bool(targets), "name at least one GPU to estimate")
    unknown = [name for name in targets if name not in gpus]
    require(
        not unknown,
        f"no data sheet of {', '.join(unknown)}; known GPUs: {', '.join(gpus)}",
    )
    own = {profile.gpu: profile for profile in measured if not profile.estimated}
    return tuple(
        own[name] if name in own else _estimate(gpus, gpus[name], tuple(own.values()), work)
        for name in dict.fromkeys(targets)
    )


def _estimate(
    gpus: Mapping[str, GpuModel],
    target: GpuModel,
    measured: Sequence[WorkloadProfile],
    work: StepWork | None,
) -> WorkloadProfile:
    known = [profile for profile in measured if profile.gpu in gpus]
    useful = [profile for profile in known if not is_host_bound(profile)]
    if useful:
        return estimate_profile(useful, gpus, target, max_batch=_counted_batch(work, target))
    why = _why_not_scaled(measured, known)
    if work is None:
        raise InputError(
            f"{why}; its layers must be counted instead, or measure it on {target.name}",
            target.name,
        )
    profile = profile_from_layers(
        work.workload,
        work.layers,
        work.gradients,
        target,
        precision=work.precision,
        max_batch=_counted_batch(work, target),
        fast_layers=work.fast_layers,
        backward_ratio=work.backward_ratio,
        source="estimated by Srifty's roofline from operations and bytes that torch counted",
    )
    return replace(
        profile,
        item=work.item,
        min_batch=min(work.min_batch, profile.max_batch),
        notes=(*profile.notes, why, *work.notes),
    )


def _counted_batch(work: StepWork | None, target: GpuModel) -> int | None:
    if work is None:
        return None
    if work.memory is None:
        batch = estimate_max_batch(work.layers, target.memory_bytes)
    else:
        batch = fitting_batch(work.memory, target.memory_bytes)
    require(
        work.most_batch is None or work.most_batch >= work.min_batch,
        f"{work.workload} cannot be trained on fewer than {work.min_batch} samples, and its data "
        f"set or global batch has {work.most_batch}",
    )
    require(
        batch >= work.min_batch,
        f"{work.workload} does not fit in the memory of {target.name}"
        + ("" if work.min_batch == 1 else f" with {work.min_batch} samples"),
    )
    return batch if work.most_batch is None else min(batch, work.most_batch)


def _why_not_scaled(measured: Sequence[WorkloadProfile], known: Sequence[WorkloadProfile]) -> str:
    if known:
        names = ", ".join(profile.gpu for profile in known)
        return (
            f"not scaled from {names}: there a step hardly grows with the batch, so the host or "
            "the input rules it and no figure of a GPU tells how it changes"
        )
    if measured:
        names = ", ".join(profile.gpu for profile in measured)
        return f"not scaled from {names}, which is no GPU that is known"
    return "no GPU was measured"
