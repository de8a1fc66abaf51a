"""Paleo (Qi, Sparks & Talwalkar 2017): an iteration counted from layers and data sheets.

A layer takes the time to read, compute and write at the device's peak rates, one after the other.
Paleo scales the rates by a *platform percent of peak*; its public code's default, which stands
here, is 100 %. For a local batch B, and a layer of F operations, A bytes written and P parameters:

    forward   B F / peak + (2 B A + 4 P) / bandwidth        (what one layer writes, the next reads)
    backward  twice that: one product for the data's gradient, one for the weights'
    update    2 P / peak + 3 · 4 P / bandwidth

Gradients of D bytes follow, which nothing hides. Paleo does not know NCCL's algorithms but those
below, each over links of β bytes per second; Luo et al. 2022 report their average, and so do we:

    one to all  2 (n−1) D / β      tree  2 ⌈log2 n⌉ D / β      butterfly  ⌈log2 n⌉ D / β
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.baselines.point_forecasts import point_forecasts
from srifty.compute.latency import LatencyModel
from srifty.compute.peaks import peak_flops
from srifty.compute.piecewise import PiecewiseLinear
from srifty.core.cluster import ClusterConfig
from srifty.core.hardware import GpuModel
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.core.profile import WorkloadProfile
from srifty.errors import InputError, Problem
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.transfers import schedule_profile
from srifty.simulator.workers import worker_groups
from srifty.units import gbit_to_bytes_per_s

FloatArray = NDArray[np.float64]

PERCENT_OF_PEAK = 1.0
_BYTES_PER_PARAMETER = 4.0
# PCIe 3.0 x16 in Paleo's table of networks: the links inside a VM.
_INSIDE_BYTES_PER_S = 16e9


@dataclass(frozen=True)
class Paleo:
    """A `Predictor`: layers over peak rates, then the average of three allreduces.

    Attributes:
        latency: what layers take on each GPU model, by name.
        exchanged_bytes: bytes of all gradients.
    """

    latency: Mapping[str, LatencyModel]
    exchanged_bytes: float

    def predict(self, job: Job, configs: ConfigTable) -> ForecastTable:
        """See `Predictor.predict`."""
        del job
        exchange_s = self.exchanged_bytes / self._link(configs) * _hops(configs.world_size)
        return point_forecasts(worker_groups(self.latency, configs), exchange_s, hidden=False)

    def _link(self, configs: ConfigTable) -> FloatArray:
        """Returns (R,) bytes per second of the slowest link."""
        rated = np.array(
            [gbit_to_bytes_per_s(o.instance_type.rated_gbit_per_s) for o in configs.offers] or [1.0]
        )
        slowest = np.where(configs.count > 0, rated[configs.offer], np.inf).min(axis=1)
        return np.where(configs.vms > 1, slowest, _INSIDE_BYTES_PER_S)

    def warnings(self, job: Job, config: ClusterConfig) -> tuple[str, ...]:
        """See `Predictor.warnings`; there are none."""
        del job, config
        return ()

    def assumptions(self, job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
        """See `Predictor.assumptions`."""
        del job, offers
        return (
            f"Layers run at {PERCENT_OF_PEAK:.0%} of the GPUs' published peak rates, and links at "
            "their rated speed; nothing hides the exchange, and all workers are equally fast.",
        )


def paleo_of(job: Job, gpus: Mapping[str, GpuModel]) -> Paleo:
    """Returns Paleo for a job.

    Args:
        job: its profiles give the layers.
        gpus: data sheets by GPU model.

    Raises:
        InputError: a profile has no layers, or there is no data sheet of its GPU.
    """
    problems: list[Problem] = []
    for profile in job.profiles:
        if not any(layer.flops + layer.bytes for layer in profile.layers):
            problems.append(
                Problem(
                    "layers",
                    f"unknown in the profile of {profile.workload} on {profile.gpu}; Paleo counts "
                    "from them: give the profile layers, or take another predictor",
                )
            )
        if profile.gpu not in gpus:
            problems.append(
                Problem(
                    "gpu",
                    f"no data sheet of {profile.gpu} is at hand, which Paleo needs; there are: "
                    f"{', '.join(sorted(gpus))}",
                )
            )
    if problems:
        raise InputError(problems, "paleo")
    schedule = schedule_profile(job)
    if schedule is not None and schedule.gradients is not None:
        exchanged = float(schedule.gradients.total_bytes)
    else:
        exchanged = _BYTES_PER_PARAMETER * sum(layer.parameters for layer in job.profiles[0].layers)
    models = {profile.gpu: _layer_latency(profile, gpus[profile.gpu]) for profile in job.profiles}
    return Paleo(models, exchanged)


def _layer_latency(profile: WorkloadProfile, gpu: GpuModel) -> LatencyModel:
    """Returns what the layers take on a GPU, as two lines in the batch."""
    flops_per_s = PERCENT_OF_PEAK * peak_flops(gpu, profile.precision)
    bytes_per_s = PERCENT_OF_PEAK * gpu.memory_bytes_per_s
    flops = sum(layer.flops for layer in profile.layers)
    written_bytes = sum(layer.bytes for layer in profile.layers)
    weights = sum(layer.parameters for layer in profile.layers)
    weight_bytes = _BYTES_PER_PARAMETER * weights
    ends = np.array([1.0, max(float(profile.max_batch), 2.0)])
    forward_s = ends * (flops / flops_per_s + 2 * written_bytes / bytes_per_s)
    forward_s = forward_s + weight_bytes / bytes_per_s
    return replace(
        LatencyModel.fit(profile),
        forward=PiecewiseLinear.from_points(ends, forward_s),
        backward=PiecewiseLinear.from_points(ends, 2 * forward_s),
        optimizer_s=2 * weights / flops_per_s + 3 * weight_bytes / bytes_per_s,
    )


def _hops(world_size: NDArray[np.int64]) -> FloatArray:
    """Returns (R,) how many times all bytes cross a link, averaged over Paleo's allreduces."""
    n = np.maximum(world_size, 1).astype(np.float64)
    height = np.ceil(np.log2(n))
    return (2 * (n - 1) + 2 * height + height) / 3
