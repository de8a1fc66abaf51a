"""What no configuration of a kind can beat: lower bounds of the simulator's iterations.

They are bounds of the simulator's model, whatever else a configuration holds, since the maximum
over all workers is no smaller than that over some:

* `C ≥ E[max of some of the workers]`, and `r_k` likewise;
* one slot: `end ≥ r_k + Σ_{j≥k} T_j` for every k; other rules: `end ≥ r_k + T_k`, since sharing
  never makes a transfer faster than it is alone;
* `T_j` of a mixed cluster is that of its slowest instance type, hence at least that of any.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import FlooredAllreduce
from srifty.core.hardware import InstanceType
from srifty.core.job import Job, Sharing
from srifty.core.offers import Offer
from srifty.simulator.stragglers import expected_maximum
from srifty.simulator.tables import ConfigTable
from srifty.simulator.transfers import Transfers, job_transfers
from srifty.simulator.workers import worker_groups

if TYPE_CHECKING:
    from srifty.simulator.iteration import Simulator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class WorkerTimes:
    """What single workers of one instance type take, (M,) of them with local batches of their own.

    Attributes:
        compute_s: mean of all passes.
        ready_s: (M, K) mean time at which each transfer can start.
        spread: standard deviation of a worker's time, as a fraction of it.
        model_spread: standard deviation of the latency model's error, likewise.
        optimizer_s: optimizer step.
        input_s: what a VM's loader takes for one sample.
    """

    compute_s: FloatArray
    ready_s: FloatArray
    spread: float
    model_spread: float
    optimizer_s: float
    input_s: float


class IterationBounds(Protocol):
    """Lower bounds of the iterations of one job, as a predictor offers them."""

    def workers(self, offer: Offer, batch: IntArray, passes: IntArray) -> WorkerTimes:
        """Returns what single workers take.

        Args:
            offer: any offer of their instance type.
            batch: (M,) local batch of each.
            passes: (M,) passes in which each is done.
        """
        ...

    def slowest_of(self, means: FloatArray, stds: FloatArray, workers: FloatArray) -> FloatArray:
        """Returns (R,) what the slowest of some workers takes at least, in the mean.

        Args:
            means: (R, G) mean of each group's workers.
            stds: (R, G) their standard deviations.
            workers: (R, G) workers of each group; 0 for an absent one.
        """
        ...

    def exchange_s(
        self, kind: InstanceType, world_size: IntArray, vms: IntArray, *, most_per_vm: int
    ) -> FloatArray:
        """Returns (R, K) seconds from the start of transfer k to the end of the exchange, at least.

        Args:
            kind: an instance type of the cluster.
            world_size: (R,) the cluster has at least as many ranks,
            vms: (R,) on at least as many VMs.
            most_per_vm: it has no more ranks than so many times its VMs.
        """
        ...

    def exchange_spread(self, kind: InstanceType) -> float:
        """Returns the least standard deviation of exposed exchange, as a fraction of it."""
        ...


# The straggler integral's error is below 3e-4 of the mean, and it differs a little with how equal
# workers are grouped: computed bounds are lowered by more than both together.
SLACK = 1 - 1e-3
# Of many transfers so many starts are looked at: each gives a bound by itself.
_MOST_STARTS = 8


@dataclass(frozen=True)
class SimulatorBounds:
    """The bounds of the simulator; see the module.

    Attributes:
        simulator: whose iterations are bounded.
        job: what is trained.
    """

    simulator: Simulator
    job: Job

    def workers(self, offer: Offer, batch: IntArray, passes: IntArray) -> WorkerTimes:
        """See `IterationBounds.workers`."""
        ones = np.ones((len(batch), 1), dtype=np.int64)
        alone = ConfigTable(
            (offer,), ones * 0, ones, batch.reshape(-1, 1), ones, passes.reshape(-1, 1)
        )
        groups = worker_groups(self.simulator.latency, alone)
        ready_s = self.simulator.ready_times(groups, self._transfers)[0]
        model = self.simulator.latency[offer.instance_type.gpu]
        profile = self.job.profile_for(offer.instance_type.gpu)
        rate = None if profile is None else profile.input_samples_per_s_per_vcpu
        return WorkerTimes(
            compute_s=(groups.before_s + groups.backward_s)[:, 0],
            ready_s=SLACK * np.maximum.accumulate(ready_s, axis=1)[:, self._starts],
            spread=model.total_std_fraction,
            model_spread=model.model_std_fraction,
            optimizer_s=model.optimizer_s,
            input_s=0.0 if rate is None else 1 / (rate * offer.instance_type.vcpus),
        )

    def slowest_of(self, means: FloatArray, stds: FloatArray, workers: FloatArray) -> FloatArray:
        """See `IterationBounds.slowest_of`."""
        return SLACK * expected_maximum(means, stds, workers)[0]

    def exchange_s(
        self, kind: InstanceType, world_size: IntArray, vms: IntArray, *, most_per_vm: int
    ) -> FloatArray:
        """See `IterationBounds.exchange_s`."""
        model = self.simulator.allreduce
        transfers = self._transfers
        if transfers is None or not isinstance(model, FlooredAllreduce):
            return np.zeros((len(world_size), len(self._starts)))
        alone_s = model.least_time_s(
            kind, world_size, vms, transfers.sizes_bytes, most_per_vm=most_per_vm
        )
        if self.job.sync.sharing is Sharing.SLOTS and self.job.sync.slots == 1:
            alone_s = np.cumsum(alone_s[:, ::-1], axis=1)[:, ::-1]
        return alone_s[:, self._starts]

    def exchange_spread(self, kind: InstanceType) -> float:
        """See `IterationBounds.exchange_spread`."""
        model = self.simulator.allreduce
        return model.least_spread(kind) if isinstance(model, FlooredAllreduce) else 0.0

    @cached_property
    def _transfers(self) -> Transfers | None:
        return job_transfers(self.job)

    @cached_property
    def _starts(self) -> IntArray:
        count = 0 if self._transfers is None else len(self._transfers)
        few = np.linspace(0, max(count - 1, 0), min(count, _MOST_STARTS))
        return np.unique(np.round(few).astype(np.int64))
