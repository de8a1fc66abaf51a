"""Forecasts from the probes' samples and the profiles alone, on the way `srifty simulate` goes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

from benchmarks.testbed.cases import Case
from benchmarks.testbed.kinds import KINDS, Kind, kinds_of
from benchmarks.testbed.layers import SCALE
from benchmarks.testbed.learn import gpu_name, profile_path
from srifty.baselines.apm import Apm, linear_latency
from srifty.baselines.compute_only import ComputeOnly
from srifty.cli._workbench import Workbench, open_job
from srifty.core.job import Sharing
from srifty.core.notation import parse_config
from srifty.simulator import ConfigTable
from srifty.simulator.exchange import ExchangeTimes
from srifty.simulator.transfers import job_transfers

_MEMORY_GIB = {"K80": 12, "M60": 8, "M60x8": 8, "T4": 16, "T4x8": 16, "V100": 16}
SRIFTY, PAPER, APM, COMPUTE_ONLY = "srifty", "paper's sharing", "APM", "compute only"
PREDICTORS = (SRIFTY, PAPER, APM, COMPUTE_ONLY)


@dataclass(frozen=True)
class Forecast:
    """What is said of a case before it runs.

    Attributes:
        mean_s: seconds per iteration, by predictor.
        persistent_std_s: Srifty's: of what does not average out over iterations.
        step_std_s: Srifty's: of one iteration, beside that.
        exposed_s: Srifty's: what of the exchange computation does not hide.
        latency_share: part of the time that transfers take alone that is not bytes over rate.
    """

    mean_s: dict[str, float]
    persistent_std_s: float
    step_std_s: float
    exposed_s: float
    latency_share: float

    def p90_s(self, iterations: int) -> float:
        """Returns what nine of ten means over so many iterations stay below."""
        std_s = (self.persistent_std_s**2 + self.step_std_s**2 / max(iterations, 1)) ** 0.5
        return self.mean_s[SRIFTY] + NormalDist().inv_cdf(0.9) * std_s


def type_document(kind: Kind) -> dict[str, object]:
    """Returns an instance type of the bed as a job file declares it."""
    return {
        "name": kind.name,
        "gpu": gpu_name(kind.gpu),
        "gpus": 1,
        "gpu_memory_gib": _MEMORY_GIB[kind.gpu],
        "vcpus": 4,
        "rated_gbit_per_s": kind.rate_mbit / 1000,
    }


def job_document(case: Case, profiles: Path, store: Path) -> dict[str, object]:
    """Returns the job file of a case: what a user of the bed would write.

    Args:
        case: gives workload, types and the way of the exchange.
        profiles: folder of profiles.
        store: the probes' samples.
    """
    kinds = kinds_of(case.family)
    gpus = sorted({KINDS[kind].gpu for kind, _, _ in case.groups})
    return {
        "name": case.model,
        "workload": [str(profile_path(profiles, case.model, gpu)) for gpu in gpus],
        "global_batch": sum(count * samples for _, count, samples in case.groups),
        "iterations": 1000,
        "batches": "any",
        "offers": {
            "quota": {kind.name: 8 for kind in kinds},
            "prices": {kind.name: {"on-demand": kind.usd_per_hour} for kind in kinds},
            "types": [type_document(kind) for kind in kinds],
        },
        "gradient_sync": {
            "mode": "per-layer" if case.per_layer else "ddp",
            "bucket_mib": 25 / SCALE,
            "first_bucket_mib": 1 / SCALE,
            "slots": "unlimited" if case.slots is None else case.slots,
        },
        "allreduce": str(store),
    }


def forecast(case: Case, profiles: Path, store: Path, folder: Path) -> Forecast:
    """Returns all predictors' forecasts of a case.

    Args:
        case: the configuration.
        profiles: folder of profiles.
        store: the probes' samples.
        folder: for the job file.
    """
    path = folder / "job.yaml"
    path.write_text(json.dumps(job_document(case, profiles, store)), encoding="utf-8")
    bench = open_job(path, ())
    config = parse_config(case.notation, bench.catalog.offers)
    table = ConfigTable.from_configs([config])
    found = bench.simulator.predict(bench.job, table)
    paper = replace(bench.job, sync=replace(bench.job.sync, sharing=Sharing.PAPER))
    latency = bench.simulator.latency
    mean_s = {
        SRIFTY: float(found.mean_s[0]),
        PAPER: float(bench.simulator.predict(paper, table).mean_s[0]),
        APM: float(_apm(bench).predict(bench.job, table).mean_s[0]),
        COMPUTE_ONLY: float(ComputeOnly(latency).predict(bench.job, table).mean_s[0]),
    }
    return Forecast(
        mean_s,
        float(found.persistent_std_s[0]),
        float(found.step_std_s[0]),
        float(found.exposed_exchange_s[0]),
        _latency_share(bench, table),
    )


def _apm(bench: Workbench) -> Apm:
    """Returns APM with Srifty's own allreduce times: better than the ring it would fit itself."""
    lines = {profile.gpu: linear_latency(profile) for profile in bench.job.profiles}
    return Apm(lines, bench.simulator.allreduce)


def _latency_share(bench: Workbench, table: ConfigTable) -> float:
    """Returns which part of the transfers' own times is not bytes over the link's bandwidth."""
    transfers = job_transfers(bench.job)
    if transfers is None:
        return 0.0
    world = ExchangeTimes.of(bench.simulator.allreduce, table, transfers.sizes_bytes)
    n = float(world.world_size[0])
    bytes_s = 2 * transfers.sizes_bytes.sum() * (n - 1) / n / float(world.capacity[0])
    return max(0.0, 1 - bytes_s / float(world.alone_s[0].sum()))
