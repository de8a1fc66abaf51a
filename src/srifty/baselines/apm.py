"""APM: the analytic baseline of Luo et al. 2022 (section 3), put together from three models.

* computation: one line in the batch size (Shen et al. 2019, Nexus);
* allreduce of all gradients at once over a ring (Zhu et al. 2020, Daydream; NVIDIA's nccl-tests):
  `T = 2 (n−1) α + 2 s (n−1) / (n β)`;
* iteration: `max(computation, communication)` (Zheng et al. 2019, Cynthia).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.baselines.point_forecasts import point_forecasts
from srifty.baselines.ring import RingAllreduce, ring_of_two_vms
from srifty.compute.latency import LatencyModel
from srifty.compute.piecewise import PiecewiseLinear
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.core.profile import WorkloadProfile
from srifty.simulator.exchange import ExchangeTimes
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.transfers import schedule_profile
from srifty.simulator.workers import worker_groups

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Apm:
    """A `Predictor`: linear computation, one allreduce, the longer of the two.

    Attributes:
        latency: latency models by GPU model, each one line (`linear_latency`).
        allreduce: how long one allreduce takes; the slowest instance type counts.
    """

    latency: Mapping[str, LatencyModel]
    allreduce: AllreduceModel

    def predict(self, job: Job, configs: ConfigTable) -> ForecastTable:
        """See `Predictor.predict`."""
        profile = schedule_profile(job)
        groups = worker_groups(self.latency, configs)
        if profile is None or profile.gradients is None:
            return point_forecasts(groups, np.zeros(len(configs)))
        total = np.array([float(profile.gradients.total_bytes)])
        exchange_s = ExchangeTimes.of(self.allreduce, configs, total).alone_s[:, 0]
        return point_forecasts(groups, exchange_s)

    def warnings(self, job: Job, config: ClusterConfig) -> tuple[str, ...]:
        """See `Predictor.warnings`; there are none."""
        del job, config
        return ()

    def assumptions(self, job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
        """See `Predictor.assumptions`."""
        del job
        kinds = tuple(dict.fromkeys(offer.instance_type for offer in offers))
        return (
            "Computation is one line in the batch size, communication one allreduce that "
            "computation hides completely; all workers are equally fast.",
            *self.allreduce.assumptions(kinds),
        )


def apm_of(job: Job, offers: Sequence[Offer], allreduce: AllreduceModel) -> Apm:
    """Returns APM for a job, learned from what Srifty learns from.

    Args:
        job: its profiles give the lines.
        offers: their instance types get a ring each, read off two of their VMs.
        allreduce: what Srifty knows of allreduces; answers inside a VM.
    """
    kinds = dict.fromkeys(offer.instance_type for offer in offers)
    rings = {kind.name: ring_of_two_vms(allreduce, kind) for kind in kinds}
    return Apm(
        {profile.gpu: linear_latency(profile) for profile in job.profiles},
        RingAllreduce(rings, allreduce),
    )


def linear_latency(profile: WorkloadProfile) -> LatencyModel:
    """Returns a profile's latency model with each curve replaced by one line."""
    model = LatencyModel.fit(profile)
    batches = [float(latency.batch) for latency in profile.latencies]
    if not profile.is_split:
        whole = _line(batches, [latency.step_s for latency in profile.latencies])
        share = model.forward.latencies_s[0] / (
            model.forward.latencies_s[0] + model.backward.latencies_s[0]
        )
        return replace(model, forward=whole.scaled(share), backward=whole.scaled(1 - share))
    return replace(
        model,
        forward=_line(batches, [latency.forward_s or 0.0 for latency in profile.latencies]),
        backward=_line(batches, [latency.backward_s or 0.0 for latency in profile.latencies]),
    )


def _line(batches: Sequence[float], latencies_s: Sequence[float]) -> PiecewiseLinear:
    """Returns the line of least relative error, its slope and constant not negative."""
    size, latency = np.array(batches), np.array(latencies_s)
    if len(size) == 1:
        return PiecewiseLinear.from_points(size, latency)
    rows = np.stack([1 / latency, size / latency], axis=1)
    constant, slope = np.linalg.lstsq(rows, np.ones(len(size)), rcond=None)[0]
    ends = np.array([size.min(), size.max()])
    if slope < 0:
        flat = np.sum(1 / latency) / np.sum(1 / np.square(latency))
        return PiecewiseLinear.from_points(ends, np.full(2, flat))
    if constant <= 0:
        slope = np.sum(size / latency) / np.sum(np.square(size / latency))
        constant = 0.0
    return PiecewiseLinear.from_points(ends, constant + slope * ends)
