"""What every predictor answers: the simulator, and each baseline that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.simulator.bounds import IterationBounds
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


@runtime_checkable
class BoundedPredictor(Protocol):
    """A predictor that knows what no iteration can undercut: large spaces can then be searched."""

    def bounds(self, job: Job) -> IterationBounds | None:
        """Returns lower bounds of the iterations of a job; None where there are none."""
        ...
