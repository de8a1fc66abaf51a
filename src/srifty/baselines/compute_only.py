"""The baseline that forgets the exchange: an iteration is what the slowest worker computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from srifty.baselines.point_forecasts import point_forecasts
from srifty.compute.latency import LatencyModel
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.workers import worker_groups


@dataclass(frozen=True)
class ComputeOnly:
    """A `Predictor` without communication, noise or stragglers.

    Attributes:
        latency: the workload's latency model for each GPU model, by name.
    """

    latency: Mapping[str, LatencyModel]

    def predict(self, job: Job, configs: ConfigTable) -> ForecastTable:
        """See `Predictor.predict`."""
        del job
        return point_forecasts(worker_groups(self.latency, configs), np.zeros(len(configs)))

    def warnings(self, job: Job, config: ClusterConfig) -> tuple[str, ...]:
        """See `Predictor.warnings`; there are none."""
        del job, config
        return ()

    def assumptions(self, job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
        """See `Predictor.assumptions`."""
        del job, offers
        return ("Gradients are exchanged in no time, and all workers are equally fast.",)
