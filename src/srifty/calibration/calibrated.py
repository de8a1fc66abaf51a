"""What observed iterations say of one instance type, and the models that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.link import CalibratedAllreduce, CalibratedLink, LinkFactors
from srifty.compute.latency import SPATIAL_UNKNOWN, LatencyModel
from srifty.core.hardware import InstanceType

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RemainingError:
    """How far forecasts from a calibration can still be off.

    Attributes:
        link: standard deviation of allreduce times, a fraction; None: the prior's.
        computation: standard deviation of what several workers make of the computation (a shared
            host, a loader) beyond the error of the latency model, a fraction of it.
    """

    link: float | None = None
    computation: float = 0.0


@dataclass(frozen=True)
class Traits:
    """What a workload makes of the machines it runs on.

    Attributes:
        effect: its own factor of transfer times, a logarithm.
        slowdown: by which its workers compute slower beside others than alone, a fraction: a shared
            host, a loader that does not keep up.
        covariance: (P + 1, P + 1) of the link's factors and the effect: what is left open.
    """

    effect: float
    slowdown: float
    covariance: FloatArray = field(compare=False)


@dataclass(frozen=True)
class Calibration:
    """What observed iterations say of one instance type.

    Attributes:
        instance_type: the VM shape.
        factors: what the prior's transfer times are multiplied by.
        spread: between workers of one iteration, a fraction of the computation.
        traits: of each observed workload.
        usual: those of a workload which was not observed: the medians.
        seen_error: how far forecasts of an observed workload can still be off.
        new_error: the same for a workload which was not observed.
        basis: what it rests on, a sentence.
    """

    instance_type: InstanceType
    factors: LinkFactors
    spread: float
    traits: Mapping[str, Traits]
    usual: Traits
    seen_error: RemainingError
    new_error: RemainingError
    basis: str

    def link(self, workload: str | None = None) -> CalibratedLink:
        """Returns the link as a workload meets it; None or a new one: as most do."""
        traits = self.traits_of(workload)
        error = self.error(workload).link
        return CalibratedLink(self.factors, traits.effect, error, self.basis, traits.covariance)

    def traits_of(self, workload: str | None = None) -> Traits:
        """Returns the traits of a workload; None or a new one: the usual ones."""
        return self.traits.get(workload or "", self.usual)

    def error(self, workload: str | None = None) -> RemainingError:
        """Returns how far forecasts of a workload can be off; None or a new one: of most."""
        return self.seen_error if workload in self.traits else self.new_error

    def latency(self, model: LatencyModel, workload: str | None = None) -> LatencyModel:
        """Returns a latency model with what several workers make of it: pace, spread and error."""
        error = self.error(workload).computation
        slowdown = self.traits_of(workload).slowdown
        basis = "its observed iteration times" if workload in self.traits else "other workloads'"
        step = min(model.step_std_fraction, self.spread)
        spatial = float(np.sqrt(self.spread**2 - step**2))
        assumptions = tuple(words for words in model.assumptions if words != SPATIAL_UNKNOWN)
        return replace(
            model,
            step_std_fraction=step,
            spatial_std_fraction=spatial,
            model_std_fraction=float(np.hypot(model.model_std_fraction, error)),
            contention_fraction=slowdown,
            assumptions=(
                *assumptions,
                f"beside others a worker computes {slowdown:.1%} slower than alone (a shared host, "
                f"a loader), by {basis}; "
                f"workers differ by {self.spread:.1%}, of which the slowest counts.",
            ),
        )

    def with_error(self, error: RemainingError) -> Calibration:
        """Returns the calibration with one error for all workloads."""
        return replace(self, seen_error=error, new_error=error)


def calibrated(
    prior: AllreduceModel, calibrations: Sequence[Calibration], workload: str | None = None
) -> CalibratedAllreduce:
    """Returns the prior, corrected by calibrations of some instance types.

    Args:
        prior: the model that the calibrations started from.
        calibrations: one per instance type.
        workload: whose iterations are forecast; None, or one that was not observed: any.
    """
    return CalibratedAllreduce(
        prior, {one.instance_type.name: one.link(workload) for one in calibrations}
    )
