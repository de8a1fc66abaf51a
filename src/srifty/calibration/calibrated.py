"""What observed iterations say of one instance type, and the models that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.calibration.link import CalibratedAllreduce, CalibratedLink, LinkFactors
from srifty.compute.latency import SPATIAL_UNKNOWN, LatencyModel
from srifty.core.hardware import InstanceType


@dataclass(frozen=True)
class Calibration:
    """What observed iterations say of one instance type.

    Attributes:
        instance_type: the VM shape.
        factors: what the prior's transfer times are multiplied by.
        spread: between workers of one iteration, a fraction of the computation.
        effects: each observed workload's own factor, a logarithm.
        usual_effect: that of a workload which was not observed: the median.
        seen_uncertainty: how far allreduce times of an observed workload can still be off.
        new_uncertainty: the same for a workload which was not observed.
        basis: what it rests on, a sentence.
    """

    instance_type: InstanceType
    factors: LinkFactors
    spread: float
    effects: Mapping[str, float]
    usual_effect: float
    seen_uncertainty: Uncertainty
    new_uncertainty: Uncertainty
    basis: str

    def link(self, workload: str | None = None) -> CalibratedLink:
        """Returns the link as a workload meets it; None or a new one: as most do."""
        if workload is not None and workload in self.effects:
            effect, uncertainty = self.effects[workload], self.seen_uncertainty
        else:
            effect, uncertainty = self.usual_effect, self.new_uncertainty
        return CalibratedLink(self.factors, effect, uncertainty, self.basis)

    def latency(self, model: LatencyModel) -> LatencyModel:
        """Returns a latency model with the observed spread between workers."""
        step = min(model.step_std_fraction, self.spread)
        spatial = float(np.sqrt(self.spread**2 - step**2))
        return replace(
            model,
            step_std_fraction=step,
            spatial_std_fraction=spatial,
            assumptions=tuple(words for words in model.assumptions if words != SPATIAL_UNKNOWN),
        )

    def with_uncertainty(self, uncertainty: Uncertainty) -> Calibration:
        """Returns the calibration with one uncertainty for all workloads."""
        return replace(self, seen_uncertainty=uncertainty, new_uncertainty=uncertainty)


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
