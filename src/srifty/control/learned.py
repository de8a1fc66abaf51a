"""What a run learned of its VMs and network, carried over to the forecasts of other plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from srifty.allreduce.base import AllreduceModel
from srifty.compute.latency import LatencyModel
from srifty.core.cluster import ClusterConfig
from srifty.core.forecast import IterationForecast
from srifty.core.job import Job
from srifty.simulator import ConfigTable, Predictor, Simulator
from srifty.simulator.perturbed import ScaledNetwork

_MOST_FACTOR = 1e4
_HALVINGS = 30
# What differs by less is the noise of a window.
_NEAR = 0.1
_SHOWN = "as this run has shown"


@dataclass(frozen=True)
class Learned:
    """How much longer things take than was forecast; 1 where nothing was learned.

    Attributes:
        network: allreduces between VMs.
        compute: passes and optimizer steps, by GPU model.
    """

    network: float = 1.0
    compute: Mapping[str, float] = field(default_factory=dict[str, float])

    def is_near(self, other: Learned) -> bool:
        """Whether another says about the same."""
        gpus = self.compute.keys() | other.compute.keys()
        pairs = [(self.compute.get(gpu, 1.0), other.compute.get(gpu, 1.0)) for gpu in gpus]
        pairs.append((self.network, other.network))
        return all(abs(one / another - 1.0) <= _NEAR for one, another in pairs)

    def predictor(self, before: Predictor) -> Predictor:
        """Returns a predictor that knows this; one that is no simulator learns nothing."""
        if not isinstance(before, Simulator) or self == Learned():
            return before
        latency = {
            gpu: _scaled(model, self.compute.get(gpu, 1.0)) for gpu, model in before.latency.items()
        }
        allreduce: AllreduceModel = before.allreduce
        if self.network != 1.0:
            basis = f"Allreduces between VMs: {self.network:.2f} times as long, {_SHOWN}."
            allreduce = ScaledNetwork(allreduce, self.network, basis)
        return replace(before, latency=latency, allreduce=allreduce)


def network_factor(
    predictor: Predictor, job: Job, config: ClusterConfig, exposed_s: float
) -> float:
    """Returns how many times longer allreduces between VMs take than a predictor forecasts.

    It is the factor with which the forecast of a configuration's exchange is what was measured;
    found by bisection, as forecasts grow with it. 1 where no factor explains it.

    Args:
        predictor: what made the forecast.
        job: what is trained.
        config: what it was measured on.
        exposed_s: seconds that the exchange adds to a step there.
    """

    def off_s(factor: float) -> float:
        forecast = forecast_of(Learned(factor).predictor(predictor), job, config)
        return forecast.exposed_exchange_s - exposed_s

    return _crossing(off_s)


def forecast_of(predictor: Predictor, job: Job, config: ClusterConfig) -> IterationForecast:
    """Returns the forecast of one configuration's iteration."""
    return predictor.predict(job, ConfigTable.from_configs([config])).row(0)


def _crossing(off: Callable[[float], float]) -> float:
    """Returns where a growing function of a factor passes through zero, from 1 on."""
    low = high = 1.0
    if off(low) >= 0:
        return 1.0
    while off(high) < 0:
        low, high = high, 2 * high
        if high > _MOST_FACTOR:
            return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if off(middle) < 0 else (low, middle)
    return high


def _scaled(model: LatencyModel, factor: float) -> LatencyModel:
    if factor == 1.0:
        return model
    return replace(
        model,
        forward=model.forward.scaled(factor),
        backward=model.backward.scaled(factor),
        optimizer_s=model.optimizer_s * factor,
        assumptions=(*model.assumptions, f"{factor:.2f} times as long, {_SHOWN}."),
    )
