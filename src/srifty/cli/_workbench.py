"""What `plan` and `simulate` share: from a job file to offers, models and a simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, plan_source
from srifty.catalog import Resolved, builtin_instance_types, resolve
from srifty.catalog.builtin import builtin_gpus
from srifty.catalog.store import (
    own_catalog_path,
    quotas_path,
    read_prices,
    read_quotas,
    read_types,
    types_path,
)
from srifty.cli._observed import calibrated_simulator_of
from srifty.cli._progress import SearchProgress
from srifty.compute.latency import LatencyModel
from srifty.core.job import Job
from srifty.core.profile import WorkloadProfile
from srifty.core.supply import PoolEntry, SupplyRequest
from srifty.errors import InputError, Problem
from srifty.files import JobFile, read_job
from srifty.planner import BatchRange
from srifty.simulator import Simulator
from srifty.units import format_bytes


@dataclass(frozen=True)
class Workbench:
    """A job with everything that is needed to forecast it.

    Attributes:
        file: what the job file says.
        job: the job, with the profiles of the GPUs on offer.
        catalog: its offers, and what is to be said of them.
        simulator: forecasts iterations.
        batch_ranges: which micro-batches each GPU model takes.
        latencies: latency models by GPU model.
        notes: what is to be said of the samples and the offers; full sentences.
    """

    file: JobFile
    job: Job
    catalog: Resolved
    simulator: Simulator
    batch_ranges: dict[str, BatchRange]
    latencies: dict[str, LatencyModel]
    notes: tuple[str, ...]


def open_job(path: Path, changes: Sequence[str]) -> Workbench:
    """Returns the workbench of a job file.

    Args:
        path: the job file.
        changes: settings that replace the file's, `key=value`.
    """
    file = read_job(path, changes)
    catalog = catalog_of(file.supply, path)
    gpus = {offer.instance_type.gpu: offer.instance_type for offer in catalog.offers}
    spelling = {gpu.casefold(): gpu for gpu in gpus}
    try:
        profiles = tuple(
            _within_memory(replace(profile, gpu=gpu), min_memory_bytes(catalog, gpu))
            for profile in file.job.profiles
            if (gpu := spelling.get(profile.gpu.casefold())) is not None
        )
    except InputError as error:
        raise InputError(error.problems, str(path)) from None
    if not profiles:
        wanted = ", ".join(sorted(gpus)) or "none"
        have = ", ".join(sorted(profile.gpu for profile in file.job.profiles))
        raise InputError(
            f"no workload profile fits an offered GPU: the offers have {wanted}, the profiles are "
            f"for {have}{_estimate_hint(gpus)}",
            str(path),
        )
    source = plan_source(file.allreduce_samples)
    offered = {offer.instance_type.name: offer.instance_type for offer in catalog.offers}
    with SearchProgress("Fitting the allreduce models") as progress:
        blend = blend_of(source, {**builtin_instance_types(), **offered}, progress=progress)
    efa = {"on": True, "off": False}.get(file.network.efa)
    models = {profile.gpu: LatencyModel.fit(profile) for profile in profiles}
    allreduce = LearnedModel(blend, efa=efa, library_version=file.network.nccl)
    simulator = Simulator(models, allreduce)
    notes = file.notes + ((source.note,) if source.note else ()) + catalog.notes
    if file.observed is not None:
        simulator, learned = calibrated_simulator_of(
            simulator, allreduce, profiles, offered.values(), file.observed
        )
        notes += learned
    return Workbench(
        file=file,
        job=replace(file.job, profiles=profiles),
        catalog=catalog,
        simulator=simulator,
        batch_ranges={
            profile.gpu: _batch_range(models[profile.gpu], profile) for profile in profiles
        },
        latencies=models,
        notes=notes,
    )


def catalog_of(supply: SupplyRequest, source: Path) -> Resolved:
    """Returns what can be rented, by the built-in catalog and the user's own.

    Args:
        supply: what the job file asks for.
        source: the job file.
    """
    try:
        own = own_catalog_path()
        wanted = _with_own_quotas(supply, own)
        return resolve(wanted, read_prices(own), read_types(types_path(own)))
    except InputError as error:
        raise InputError(error.problems, error.source or str(source)) from None


def _estimate_hint(gpus: Iterable[str]) -> str:
    """Returns how to get profiles of the offered GPUs, where that needs no such GPU."""
    known = [gpu for gpu in sorted(gpus) if gpu in builtin_gpus()]
    if not known:
        return ""
    return (
        f"; measure there, or estimate: srifty profile MODULE:FACTORY --estimate-for "
        f"{','.join(known)} -o PROFILE.json"
    )


def _batch_range(model: LatencyModel, profile: WorkloadProfile) -> BatchRange:
    return BatchRange(
        model.min_batch,
        model.knee_batch,
        model.max_batch,
        model.measured_batches,
        frozenset(profile.verified_batches),
    )


def _with_own_quotas(supply: SupplyRequest, own: Path) -> SupplyRequest:
    """Returns the request with the user's own quotas in vCPUs, where it asks for them.

    Raises:
        InputError: the user's catalog holds none for the cloud and region.
    """
    if supply.vcpu_quota is not None:
        return supply
    entries = tuple(
        PoolEntry(row.market, row.pool, row.vcpus)
        for row in read_quotas(quotas_path(own))
        if row.cloud == supply.cloud and row.region == supply.region
    )
    if not entries:
        fetch = f"fetch them with srifty catalog quota --region {supply.region}, or "
        message = (
            f"your catalog holds no quotas of {supply.cloud} in {supply.region}; "
            f"{fetch if supply.cloud == 'aws' else ''}state them"
        )
        raise InputError([Problem("offers.vcpu_quota", message)])
    return replace(supply, vcpu_quota=entries)


def min_memory_bytes(catalog: Resolved, gpu: str) -> int:
    """Returns the memory of the smallest offered GPU of a model."""
    return min(
        offer.instance_type.gpu_memory_bytes
        for offer in catalog.offers
        if offer.instance_type.gpu == gpu
    )


def _within_memory(profile: WorkloadProfile, memory_bytes: int) -> WorkloadProfile:
    """Returns the profile without batches whose measured peak exceeds the offered GPU's memory.

    Raises:
        InputError: not even the smallest batch fits.
    """
    peaks = profile.peak_memory_bytes
    too_large = min((batch for batch, peak in peaks.items() if peak > memory_bytes), default=None)
    if too_large is None or profile.max_batch < too_large:
        return profile
    most = max((batch for batch in peaks if batch < too_large), default=too_large - 1)
    if most < profile.min_batch:
        raise InputError(
            f"{profile.workload} does not fit on {profile.gpu}: {too_large} samples need "
            f"{format_bytes(peaks[too_large])}, an offered GPU has {format_bytes(memory_bytes)}; "
            "take its types out of offers.quota"
        )
    return replace(profile, max_batch=most)
