"""A ring of equal links, as the analytic baseline assumes it: one latency, one bandwidth.

`T = 2 (n−1) α + 2 s (n−1) / (n β)` for n ranks on several VMs (Patarasu & Yuan 2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.core.hardware import InstanceType
from srifty.units import MIB, format_bandwidth, format_duration

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Where the search for a link starts: seconds per hop, bytes per second.
_START = (50e-6, 1e9)
_TAIL = 0.1
# What a ring is read off: the message that shows the latency, and the one that shows the bandwidth.
_SMALL_BYTES, _LARGE_BYTES = 8.0, 256.0 * MIB


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring.

    Attributes:
        alpha_s: seconds per hop.
        beta: bus bytes per second.
    """

    alpha_s: float
    beta: float

    def time_s(self, world_size: FloatArray, size_bytes: FloatArray) -> FloatArray:
        """Returns seconds of one allreduce; the arrays broadcast against each other."""
        hops = 2 * (world_size - 1)
        return hops * self.alpha_s + hops / world_size * size_bytes / self.beta


@dataclass(frozen=True)
class RingAllreduce:
    """An `AllreduceModel`: rings between VMs, another model inside a VM and elsewhere.

    Attributes:
        rings: rings by instance type.
        otherwise: answers for one VM, and for instance types without a ring.
    """

    rings: Mapping[str, Ring]
    otherwise: AllreduceModel

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        time_s = self.otherwise.time_s(instance_type, world_size, vms, size_bytes)
        ring = self.rings.get(instance_type.name)
        if ring is None:
            return time_s
        n = world_size[:, None].astype(np.float64)
        return np.where(vms[:, None] > 1, ring.time_s(n, size_bytes[None, :]), time_s)

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`."""
        capacity = self.otherwise.bus_capacity(instance_type, world_size, vms)
        ring = self.rings.get(instance_type.name)
        return capacity if ring is None else np.where(vms > 1, ring.beta, capacity)

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`."""
        return self.otherwise.uncertainty(instance_type, world_size, vms, size_bytes)

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`."""
        return self.otherwise.warnings(instance_type, world_size, vms, size_bytes)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        others = [kind for kind in instance_types if kind.name not in self.rings]
        words = [
            f"Allreduce between VMs of {kind.name}: one ring, {format_duration(ring.alpha_s)} per "
            f"hop and {format_bandwidth(ring.beta)}."
            for kind in dict.fromkeys(instance_types)
            if (ring := self.rings.get(kind.name)) is not None
        ]
        return (*self.otherwise.assumptions(others), *words)


def ring_of_two_vms(model: AllreduceModel, instance_type: InstanceType) -> Ring:
    """Returns the ring that an allreduce of a small and a large message on two VMs shows."""
    n = 2 * instance_type.gpus
    sizes = np.array([_SMALL_BYTES, _LARGE_BYTES])
    small_s, large_s = model.time_s(instance_type, np.array([n]), np.array([2]), sizes)[0]
    hops = 2 * (n - 1)
    transfer_s = max(float(large_s - small_s), 1e-12)
    return Ring(float(small_s) / hops, hops / n * _LARGE_BYTES / transfer_s)


def fit_ring(
    measured_s: FloatArray, compute_s: FloatArray, world_size: IntArray, size_bytes: FloatArray
) -> Ring:
    """Returns the ring with which `max(computation, allreduce)` is nearest to measured iterations.

    Nearest by the ratio, with errors beyond 10 % counted linearly, so that the baseline is judged
    by what it can say at best and not by an outlier.

    Args:
        measured_s: (R,) iteration times of worlds with several VMs.
        compute_s: (R,) computation of the slowest worker.
        world_size: (R,) ranks.
        size_bytes: (R,) bytes of all gradients.
    """
    n = world_size.astype(np.float64)

    def errors(log_parameters: FloatArray) -> FloatArray:
        alpha_s, beta = np.exp(log_parameters)
        exchange_s = Ring(float(alpha_s), float(beta)).time_s(n, size_bytes)
        return np.log(np.maximum(compute_s, exchange_s) / measured_s)

    solver: Any = optimize
    best = solver.least_squares(errors, np.log(_START), loss="soft_l1", f_scale=_TAIL)
    alpha_s, beta = np.exp(np.asarray(best.x, dtype=np.float64))
    return Ring(float(alpha_s), float(beta))
