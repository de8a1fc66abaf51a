"""What every allreduce model answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from srifty.core.hardware import InstanceType

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A normal variable stays within this many standard deviations nine times in ten.
Z90 = 1.6449


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How far allreduce times can be off, as fractions of them.

    Attributes:
        allocation_fraction: (R,) standard deviation between allocations of the same VMs.
        model_fraction: (R,) standard deviation of the model's error.
    """

    allocation_fraction: FloatArray
    model_fraction: FloatArray


class AllreduceModel(Protocol):
    """Forecasts allreduce times among VMs of one instance type.

    A mixed cluster is asked type by type at its total world size and VM count; the slowest answer
    counts. Worlds come as two arrays: (R,) `world_size` ranks on (R,) `vms` VMs.
    """

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """Returns (R, K) seconds of one allreduce of each size in each world.

        Args:
            instance_type: the VM shape.
            world_size: (R,) ranks; 1 gives 0 seconds.
            vms: (R,) VMs that hold them.
            size_bytes: (K,) bytes that each rank contributes.
        """
        ...

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """Returns (R,) bus bytes per second that all transfers together can move."""
        ...

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """Returns how far the time of all (K,) transfers together can be off in each world."""
        ...

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """Returns what the times of these types rest on, in full sentences."""
        ...

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """Returns what to doubt about the times of one world, in full sentences."""
        ...


@runtime_checkable
class FlooredAllreduce(Protocol):
    """An allreduce model that knows what its answers cannot fall below: searches can then prune."""

    def least_time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        *,
        most_per_vm: int,
    ) -> FloatArray:
        """Returns (R, K) seconds that `time_s` undercuts in no world at least as large.

        Args:
            instance_type: the VM shape.
            world_size: (R,) least number of ranks; 1 gives 0 seconds.
            vms: (R,) least number of VMs, no more than ranks.
            size_bytes: (K,) bytes that each rank contributes.
            most_per_vm: worlds have no more ranks than so many times their VMs.
        """
        ...

    def least_spread(self, instance_type: InstanceType) -> float:
        """Returns the least spread (allocation and model together) of any world, a fraction."""
        ...
