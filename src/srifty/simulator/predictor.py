"""What every predictor answers: the simulator, and each baseline that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.simulator.tables import ConfigTable, ForecastTable


class Predictor(Protocol):
    """Forecasts iterations of a job."""

    def predict(self, job: Job, configs: ConfigTable) -> ForecastTable:
        """Returns one forecast per configuration."""
        ...

    def warnings(self, job: Job, config: ClusterConfig) -> tuple[str, ...]:
        """Returns what to doubt about the forecast of one configuration, in full sentences."""
        ...

    def assumptions(self, job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
        """Returns what the forecasts take for granted, in full sentences."""
        ...
