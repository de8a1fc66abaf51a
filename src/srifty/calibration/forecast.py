"""The simulator's forecasts of observed configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from srifty.allreduce.base import AllreduceModel
from srifty.calibration.calibrated import Calibration, calibrated
from srifty.calibration.workload import ObservedWorkload
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.hardware import InstanceType
from srifty.core.observation import Observation
from srifty.core.offers import Location, Market, Offer
from srifty.simulator.iteration import Simulator
from srifty.simulator.tables import ConfigTable, ForecastTable


def calibrated_simulator(
    workload: ObservedWorkload, calibration: Calibration, prior: AllreduceModel
) -> Simulator:
    """Returns the simulator of one workload on one calibrated instance type.

    Args:
        workload: its computation and gradients.
        calibration: what was learned of the instance type.
        prior: the model that the calibration started from.
    """
    return Simulator(
        {gpu: calibration.latency(model, workload.name) for gpu, model in workload.latency.items()},
        calibrated(prior, [calibration], workload.name),
    )


def forecast_observed(
    observations: Sequence[Observation],
    workload: ObservedWorkload,
    calibration: Calibration,
    prior: AllreduceModel,
) -> ForecastTable:
    """Returns the forecasts of one workload's observations on the calibration's instance type."""
    configs = observed_configs(observations, calibration.instance_type)
    return calibrated_simulator(workload, calibration, prior).predict(workload.job, configs)


def observed_configs(
    observations: Sequence[Observation], instance_type: InstanceType
) -> ConfigTable:
    """Returns the cluster configurations of observations, in their order."""
    quota = max((row.vms for row in observations), default=1)
    offers = {
        gpu: Offer(replace(instance_type, gpu=gpu), Market.OWNED, Location(""), 0.0, quota)
        for gpu in dict.fromkeys(row.gpu for row in observations)
    }
    return ConfigTable.from_configs([_config(row, offers[row.gpu]) for row in observations])


def _config(row: Observation, offer: Offer) -> ClusterConfig:
    sizes = sorted(set(row.gpus_used), reverse=True)
    return ClusterConfig(
        tuple(
            VmGroup(
                offer, row.gpus_used.count(used), used * row.local_batch, used, row.accumulation
            )
            for used in sizes
        )
    )
