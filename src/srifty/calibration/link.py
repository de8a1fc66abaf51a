"""An allreduce model whose links were corrected by observed iteration times.

The prior's time of an allreduce is a latency and a transfer. Iterations say little about the
latency, so it stays; the transfer is multiplied by

    V > 1:  exp(between + two_vms·[V = 2] + per_log_gpus·ln(n/V) + per_log_vms·ln V + effect)
    V = 1:  exp(inside + effect)

with n ranks on V VMs. `effect` is what a workload makes of the same link: how its messages are cut,
what else its iterations wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.core.hardware import InstanceType

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# The size whose time is all latency.
_ONE_BYTE = np.ones(1)


@dataclass(frozen=True, slots=True)
class LinkFactors:
    """Logarithms of what transfer times are multiplied by; see the module's formula.

    Attributes:
        between: between VMs.
        two_vms: on exactly two VMs (libraries choose another algorithm there).
        per_log_gpus: for each e-fold of GPUs that share a VM's network.
        per_log_vms: for each e-fold of VMs.
        inside: inside one VM.
    """

    between: float = 0.0
    two_vms: float = 0.0
    per_log_gpus: float = 0.0
    per_log_vms: float = 0.0
    inside: float = 0.0

    def log_factor(self, world_size: IntArray, vms: IntArray) -> FloatArray:
        """Returns (R,) the logarithm of the factor, without a workload's effect."""
        return factor_features(world_size, vms) @ np.array(astuple(self), dtype=np.float64)


def factor_features(world_size: IntArray, vms: IntArray) -> FloatArray:
    """Returns (R, 5) what each field of `LinkFactors` is multiplied by."""
    many = vms > 1
    v = vms.astype(np.float64)
    return np.stack(
        [
            many,
            vms == 2,
            np.where(many, np.log(world_size / v), 0.0),
            np.where(many, np.log(v), 0.0),
            ~many,
        ],
        axis=1,
        dtype=np.float64,
    )


def latency_s(
    prior: AllreduceModel, kind: InstanceType, world_size: IntArray, vms: IntArray
) -> FloatArray:
    """Returns (R, 1) the seconds of an allreduce that carries next to nothing."""
    return prior.time_s(kind, world_size, vms, _ONE_BYTE)


@dataclass(frozen=True)
class CalibratedLink:
    """What was learned of one instance type.

    Attributes:
        factors: the link's factors.
        effect: the workload's effect, a logarithm.
        model_fraction: standard deviation of the error that is left; None: the prior's. The
            spread between allocations is the prior's.
        basis: what it rests on, a sentence.
        covariance: (P + 1, P + 1) of the factors and the effect; None: they are known.
    """

    factors: LinkFactors
    effect: float
    model_fraction: float | None
    basis: str
    covariance: FloatArray | None = None

    def log_std(self, world_size: IntArray, vms: IntArray) -> FloatArray:
        """Returns (R,) how far the observations leave the logarithm of the factor open."""
        if self.covariance is None:
            return np.zeros(len(world_size))
        features = factor_features(world_size, vms)
        features = np.column_stack([features, np.ones(len(features))])
        return np.sqrt(np.einsum("rp,pq,rq->r", features, self.covariance, features))


@dataclass(frozen=True)
class CalibratedAllreduce:
    """An `AllreduceModel`: the prior, corrected where iterations were observed.

    Attributes:
        prior: answers for instance types without a calibrated link, and for all latencies.
        links: calibrated links by instance type.
    """

    prior: AllreduceModel
    links: Mapping[str, CalibratedLink]

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        time_s = self.prior.time_s(instance_type, world_size, vms, size_bytes)
        if instance_type.name not in self.links:
            return time_s
        latency = latency_s(self.prior, instance_type, world_size, vms)
        # A message of less than a byte's worth of time keeps the prior's answer.
        transfer = np.maximum(time_s - latency, 0.0)
        factor = self._factor(instance_type, world_size, vms)
        return np.minimum(latency, time_s) + transfer * factor[:, None]

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`."""
        capacity = self.prior.bus_capacity(instance_type, world_size, vms)
        if instance_type.name not in self.links:
            return capacity
        return capacity / self._factor(instance_type, world_size, vms)

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`."""
        before = self.prior.uncertainty(instance_type, world_size, vms, size_bytes)
        link = self.links.get(instance_type.name)
        if link is None or link.model_fraction is None:
            return before
        fraction = np.hypot(link.model_fraction, link.log_std(world_size, vms))
        return replace(before, model_fraction=fraction)

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`; a calibrated link has none."""
        if instance_type.name in self.links:
            return ()
        return self.prior.warnings(instance_type, world_size, vms, size_bytes)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        others = [kind for kind in instance_types if kind.name not in self.links]
        learned = (self.links[k.name].basis for k in instance_types if k.name in self.links)
        return (*self.prior.assumptions(others), *dict.fromkeys(learned))

    def _factor(self, kind: InstanceType, world_size: IntArray, vms: IntArray) -> FloatArray:
        link = self.links[kind.name]
        return np.exp(link.factors.log_factor(world_size, vms) + link.effect)
