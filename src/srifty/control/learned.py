"""What a run learned of its VMs and network, carried over to the forecasts of other plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel, FlooredAllreduce, Uncertainty
from srifty.compute.latency import LatencyModel
from srifty.core.cluster import ClusterConfig
from srifty.core.forecast import IterationForecast
from srifty.core.hardware import InstanceType
from srifty.core.job import Job
from srifty.simulator import ConfigTable, Predictor, Simulator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MOST_FACTOR = 1e4
_HALVINGS = 30
# What differs by less is the noise of a window.
_NEAR = 0.1


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
            allreduce = ScaledAllreduce(allreduce, self.network)
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
        assumptions=(*model.assumptions, f"{factor:.2f} times as long, as this run has shown."),
    )


@dataclass(frozen=True)
class ScaledAllreduce:
    """An allreduce model whose times between VMs are so many times longer.

    Attributes:
        prior: the model.
        factor: how many times, at least 1.
    """

    prior: AllreduceModel
    factor: float

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        time_s = self.prior.time_s(instance_type, world_size, vms, size_bytes)
        return time_s * self._factors(vms)[:, None]

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`."""
        return self.prior.bus_capacity(instance_type, world_size, vms) / self._factors(vms)

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`."""
        return self.prior.uncertainty(instance_type, world_size, vms, size_bytes)

    def least_time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        *,
        most_per_vm: int,
    ) -> FloatArray:
        """See `FlooredAllreduce.least_time_s`: no factor is below 1, so the prior's floor holds."""
        if not isinstance(self.prior, FlooredAllreduce):
            return np.zeros((len(world_size), len(size_bytes)))
        return self.prior.least_time_s(
            instance_type, world_size, vms, size_bytes, most_per_vm=most_per_vm
        )

    def least_spread(self, instance_type: InstanceType) -> float:
        """See `FlooredAllreduce.least_spread`."""
        if not isinstance(self.prior, FlooredAllreduce):
            return 0.0
        return self.prior.least_spread(instance_type)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        said = f"Allreduces between VMs: {self.factor:.2f} times as long, as this run has shown."
        return (*self.prior.assumptions(instance_types), said)

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`."""
        return self.prior.warnings(instance_type, world_size, vms, size_bytes)

    def _factors(self, vms: IntArray) -> FloatArray:
        return np.where(np.asarray(vms) > 1, self.factor, 1.0)
