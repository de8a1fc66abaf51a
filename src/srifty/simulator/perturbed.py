"""Simulators of a slightly different world: a slower network, GPUs that vary more or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel, FlooredAllreduce, Uncertainty
from srifty.core.hardware import InstanceType
from srifty.simulator.iteration import Simulator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ScaledNetwork:
    """An allreduce model whose transfers between VMs take longer by one factor.

    Attributes:
        model: the model as it is; links inside a VM stay as they are.
        factor: what times between VMs are multiplied by, above 0.
        basis: what that rests on, a sentence; empty: nothing is said.
    """

    model: AllreduceModel
    factor: float
    basis: str = ""

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        time_s = self.model.time_s(instance_type, world_size, vms, size_bytes)
        return time_s * self._factors(vms)[:, None]

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`."""
        return self.model.bus_capacity(instance_type, world_size, vms) / self._factors(vms)

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`: fractions stay what they are."""
        return self.model.uncertainty(instance_type, world_size, vms, size_bytes)

    def least_time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        *,
        most_per_vm: int,
    ) -> FloatArray:
        """See `FlooredAllreduce.least_time_s`; 0 where the model knows no floor."""
        if not isinstance(self.model, FlooredAllreduce):
            return np.zeros((len(world_size), len(size_bytes)))
        least_s = self.model.least_time_s(
            instance_type, world_size, vms, size_bytes, most_per_vm=most_per_vm
        )
        # Worlds of at least one VM may be on one, whose times stay, or on several.
        least_factors = np.where(vms > 1, self.factor, min(self.factor, 1.0))
        return least_s * least_factors[:, None]

    def least_spread(self, instance_type: InstanceType) -> float:
        """See `FlooredAllreduce.least_spread`; 0 where the model knows no floor."""
        if not isinstance(self.model, FlooredAllreduce):
            return 0.0
        return self.model.least_spread(instance_type)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        said = self.model.assumptions(instance_types)
        return (*said, self.basis) if self.basis else said

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`."""
        return self.model.warnings(instance_type, world_size, vms, size_bytes)

    def _factors(self, vms: IntArray) -> FloatArray:
        return np.where(vms > 1, self.factor, 1.0)


def with_bandwidth(simulator: Simulator, share: float) -> Simulator:
    """Returns a simulator whose network has only a share of its bandwidth."""
    return replace(simulator, allreduce=ScaledNetwork(simulator.allreduce, 1 / share))


def with_spread(simulator: Simulator, factor: float) -> Simulator:
    """Returns a simulator whose GPUs vary more, from step to step and from one to another.

    Args:
        simulator: the simulator as it is.
        factor: what standard deviations are multiplied by; 0: all GPUs of a type are the same.
    """
    latency = {
        gpu: replace(
            model,
            step_std_fraction=factor * model.step_std_fraction,
            spatial_std_fraction=factor * model.spatial_std_fraction,
        )
        for gpu, model in simulator.latency.items()
    }
    return replace(simulator, latency=latency)
