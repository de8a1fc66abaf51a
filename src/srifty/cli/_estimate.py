"""Profiles for GPUs that are not at hand: counts a workload and estimates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from srifty.catalog.builtin import builtin_gpus
from srifty.compute.estimates import estimate_profiles
from srifty.core.hardware import GpuModel
from srifty.core.profile import WorkloadProfile
from srifty.profiling.counting import count
from srifty.profiling.workload import Workload


def estimate_for(
    workload: Workload,
    gpu_names: Sequence[str],
    measured: WorkloadProfile | None = None,
    *,
    precision: str = "fp32",
    gpus: Mapping[str, GpuModel] | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> tuple[WorkloadProfile, ...]:
    """Returns one profile per GPU name, in their order, each once; marked `estimated`.

    Args:
        workload: what to estimate; it is counted under fake tensors and stays as it is.
        gpu_names: names as in the catalog, such as `T4` and `A100-40GB`.
        measured: the profile of the machine at hand. If its GPU is known, its curve is scaled, and
            asked for by name it comes back as it is; a CPU's is of no use here and is not used.
        precision: what to estimate for where nothing is measured; else the measured one.
        gpus: the GPU models that are known; by default the built-in ones.
        on_batch: told each batch size before it is counted, for a progress line.

    Raises:
        InputError: an unknown GPU, a workload that cannot be counted or does not fit.
    """
    known = builtin_gpus() if gpus is None else gpus
    on_gpu = measured is not None and measured.gpu in known
    if measured is not None and on_gpu and measured.precision != "unknown":
        precision = measured.precision
    return estimate_profiles(
        known,
        gpu_names,
        measured=() if measured is None else (measured,),
        work=count(workload, precision=precision, on_batch=on_batch),
    )
