"""Observations of a made-up cluster whose links are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srifty.allreduce import AlphaBetaModel
from srifty.calibration import (
    CalibratedAllreduce,
    CalibratedLink,
    LinkFactors,
    observed_configs,
    observed_workload,
)
from srifty.core import Observation
from srifty.simulator import Simulator
from tests.builders import make_schedule, make_type

KIND = make_type("b4.large", gpu="A", gpus=4, rated_gbit_per_s=25.0)
PRIOR = AlphaBetaModel()
FACTORS = LinkFactors(between=0.8, two_vms=0.4, per_log_gpus=0.15, per_log_vms=0.2, inside=0.3)
SPREAD = 0.05
# Name → (seconds of a step by itself, per sample, bytes of the gradients, effect).
WORKLOADS = {
    "small": (0.02, 0.001, 12_000_000, 0.1),
    "middle": (0.05, 0.004, 90_000_000, 0.0),
    "large": (0.10, 0.020, 400_000_000, -0.1),
}
PLACEMENTS = (
    (2,), (4,), (1, 1), (2, 2), (4, 4), (1, 1, 1), (4, 4, 2), (4, 4, 4), (1, 1, 1, 1),
    (2, 2, 1, 1), (4, 4, 4, 4), (2,) * 8, (4,) * 8,
)  # fmt: skip
BATCHES = (4, 16, 64)


def schedule_of(name):
    size = WORKLOADS[name][2]
    return make_schedule([(size // 8, (part + 1) / 8) for part in range(8)])


def probes(name):
    constant_s, per_sample_s = WORKLOADS[name][:2]
    return [
        Observation(name, "A", KIND.name, (1,), batch, constant_s + per_sample_s * batch)
        for batch in BATCHES
    ]


def workloads(names=tuple(WORKLOADS)):
    return {name: observed_workload(name, probes(name), schedule_of(name)) for name in names}


def observed(*, noise=0.0, seed=0, factors=FACTORS, names=tuple(WORKLOADS), slowdowns=None):
    """Observations with several workers, from the simulator with known links.

    `slowdowns`: by name, by which workers are slower in company than alone.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for name in names:
        link = CalibratedLink(factors, WORKLOADS[name][3], 0.0, "made up")
        workload = workloads((name,))[name]
        blank = [
            Observation(name, "A", KIND.name, placement, batch, 1.0)
            for placement in PLACEMENTS
            for batch in BATCHES
        ]
        latency = {
            gpu: replace(
                model,
                step_std_fraction=0.0,
                spatial_std_fraction=SPREAD,
                contention_fraction=(slowdowns or {}).get(name, 0.0),
            )
            for gpu, model in workload.latency.items()
        }
        simulator = Simulator(latency, CalibratedAllreduce(PRIOR, {KIND.name: link}))
        mean_s = simulator.predict(workload.job, observed_configs(blank, KIND)).mean_s
        mean_s = mean_s * np.exp(noise * rng.standard_normal(len(blank)))
        rows += [
            replace(row, step_s=float(seconds)) for row, seconds in zip(blank, mean_s, strict=True)
        ]
    return rows
