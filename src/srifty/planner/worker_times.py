"""What one worker alone takes at each local batch, asked of any predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.job import BatchRule, Job
from srifty.planner.assemble import assemble
from srifty.planner.space import SpaceRule, Splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.predictor import Predictor
from srifty.simulator.tables import ConfigTable

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Local batches that are asked for where any is allowed: beyond, they are spaced by their ratio.
_MOST_BATCHES = 4096


@dataclass(frozen=True)
class WorkerTimes:
    """One GPU of an instance type by itself.

    Attributes:
        batches: (K,) allowed local batches, ascending; none where no batch is allowed.
        latency_s: (K,) seconds of an iteration on one worker.
    """

    batches: IntArray
    latency_s: FloatArray

    def largest_within(self, target_s: float) -> int:
        """Returns the largest batch that no smaller one exceeds, within the target; 0 for none."""
        reached = np.maximum.accumulate(self.latency_s)
        place = int(np.searchsorted(reached, target_s * (1 + 1e-12), side="right"))
        return int(self.batches[place - 1]) if place else 0


def worker_times(
    job: Job, supply: TypeSupply, predictor: Predictor, rule: SpaceRule
) -> WorkerTimes:
    """Returns what one worker of a type takes at each allowed local batch.

    Args:
        job: what is trained.
        supply: the type; a local batch beyond its memory is done in several passes.
        predictor: forecasts iterations.
        rule: which local batches are allowed.
    """
    least, most = rule.least(supply), rule.most(supply, job.global_batch)
    batches = _allowed(least, most, rule.batch_rule)
    splits = Splits(np.ones((len(batches), 1), dtype=np.int64), batches[:, None])
    configs = assemble([supply], splits, rule.batch_rule).configs
    smallest = configs.samples_per_vm[:, 0] // configs.accumulation[:, 0]
    usable = np.flatnonzero(smallest >= supply.batches.least)
    return WorkerTimes(batches[usable], predictor.predict(job, configs.take(usable)).mean_s)


def worker_speed(job: Job, predictor: Predictor) -> Callable[[TypeSupply, int], float]:
    """Returns what says how many samples per second one GPU of a type takes at a batch.

    Args:
        job: what is trained.
        predictor: forecasts iterations.
    """

    def speed(supply: TypeSupply, batch: int) -> float:
        one = ClusterConfig((VmGroup(supply.offers[0], 1, batch, gpus_used=1),))
        return batch / float(predictor.predict(job, ConfigTable.from_configs([one])).mean_s[0])

    return speed


def _allowed(least: int, most: int, batch_rule: BatchRule) -> IntArray:
    """Returns the allowed local batches between two bounds, ascending."""
    if most < least:
        return np.zeros(0, dtype=np.int64)
    if batch_rule is BatchRule.POWER_OF_TWO:
        powers = 1 << np.arange(most.bit_length(), dtype=np.int64)
        return powers[(powers >= least) & (powers <= most)]
    if most - least < _MOST_BATCHES:
        return np.arange(least, most + 1, dtype=np.int64)
    return np.unique(np.rint(np.geomspace(least, most, _MOST_BATCHES)).astype(np.int64))
