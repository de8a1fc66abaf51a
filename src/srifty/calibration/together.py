"""Several instance types that were observed together.

How an exchange grows with the VMs and with the GPUs that share one's network is mostly the
library's doing: what one type's observations say of it holds for the others too, but for a little.
In a mixed cluster a type is asked about worlds that no cluster of it alone had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace

import numpy as np

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.calibrate import calibrate, most_probable_calibration
from srifty.calibration.calibrated import Calibration
from srifty.calibration.link import LinkFactors
from srifty.calibration.posterior import LinkPrior
from srifty.calibration.workload import ObservedWorkload
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation

# Factors that types share, and by how much they may differ between two types; logarithms.
_SHARED = np.array(astuple(LinkFactors(two_vms=1.0, per_log_gpus=1.0, per_log_vms=1.0))) > 0
_BETWEEN_TYPES = 0.1


def calibrate_together(
    instance_types: Sequence[InstanceType],
    observations: Sequence[Observation],
    workloads: Mapping[str, ObservedWorkload],
    prior: AllreduceModel,
) -> list[Calibration]:
    """Returns what observed iterations say of each instance type; see `calibrate`.

    Args:
        instance_types: the VM shapes, each observed with several VMs.
        observations: what was measured.
        workloads: computation and gradients by name.
        prior: answers what an allreduce takes before anything was observed.

    Raises:
        ModelError: a type has no row with several VMs, or a workload's gradients are unknown.
    """
    if len(instance_types) < 2:
        return [calibrate(kind, observations, workloads, prior) for kind in instance_types]
    alone = [
        most_probable_calibration(kind, observations, workloads, prior) for kind in instance_types
    ]
    return [
        calibrate(
            kind, observations, workloads, prior, _informed([c for c in alone if c is not mine])
        )
        for kind, mine in zip(instance_types, alone, strict=True)
    ]


def _informed(others: Sequence[Calibration]) -> LinkPrior:
    """Returns what is usual, made more exact by what other types' observations add to it."""
    usual = LinkPrior()
    first_mean = np.array(astuple(usual.mean))
    first_precision = 1 / np.square(np.array(astuple(usual.std)))
    precision, total = first_precision, first_mean * first_precision
    count = len(first_mean)
    for other in others:
        after = 1 / np.diag(other.usual.covariance)[:count]
        # The observations' own part of the posterior; none where they say nothing.
        said = np.where(_SHARED, np.maximum(after - first_precision, 0.0), 0.0)
        about = np.array(astuple(other.factors)) * after - first_mean * first_precision
        known = said > 0
        mean, own = np.zeros(count), np.zeros(count)
        mean[known] = about[known] / said[known]
        own[known] = 1 / (1 / said[known] + _BETWEEN_TYPES**2)
        precision = precision + own
        total = total + own * mean
    means = LinkFactors(*(float(value) for value in total / precision))
    stds = LinkFactors(*(float(value) for value in 1 / np.sqrt(precision)))
    return replace(usual, mean=means, std=stds)
