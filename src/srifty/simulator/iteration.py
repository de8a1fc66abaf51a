"""The mean iteration time of a cluster configuration, and how far it spreads.

For worker i with forward f_i and backward b_i per pass, a_i passes, and transfers that are ready at
the fractions u_k,i of the backward pass (the same for all workers where the profiles know them at
one batch size alone):

    A_i = (a_i − 1)(f_i + b_i)                      passes that send nothing
    r_k = E[ max_i (A_i + f_i + u_k,i b_i) ]        transfer k can start
    C   = E[ max_i (A_i + f_i + b_i) ]              computation of the slowest worker
    t   = max(input_i, max(C, end of the last transfer) + max_i t_opt,i)

There is no barrier between forward and backward, so the maxima are of sums. Luo et al. 2022 take
`max f + max(max b, t_pe)`, which is the variant `IterationLaw.PAPER`. One noise factor per worker
and step multiplies its forward and backward together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.compute.latency import LatencyModel
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Job
from srifty.core.offers import Offer
from srifty.errors import ModelError
from srifty.simulator.convex import IntArray, convex_values
from srifty.simulator.exchange import ExchangeTimes, exchange_ends
from srifty.simulator.paths import path_values
from srifty.simulator.profile_notes import (
    cpu_assumptions,
    gradient_assumptions,
    unfound_warnings,
)
from srifty.simulator.stragglers import expected_maximum, sampled_maximum
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.transfers import (
    Transfers,
    job_transfers,
    schedule_profile,
)
from srifty.simulator.workers import WorkerGroups, worker_groups

FloatArray = NDArray[np.float64]

# Rows that are worked on together: enough to hide what an array operation costs by itself.
_CHUNK_ROWS = 2048


class IterationLaw(StrEnum):
    """How forward, backward and exchange make an iteration."""

    SUMS = "sums"
    PAPER = "paper"


class Noise(StrEnum):
    """How the slowest of noisy workers is found."""

    INTEGRAL = "integral"
    SAMPLED = "sampled"


@dataclass(frozen=True)
class Simulator:
    """Predicts iterations from latency models and an allreduce model.

    Attributes:
        latency: the workload's latency model for each GPU model, by name.
        allreduce: answers how long one allreduce takes.
        law: how forward, backward and exchange make an iteration.
        noise: how the slowest worker is found.
        draws: iterations to draw with `Noise.SAMPLED`.
        seed: seed of those draws.
    """

    latency: Mapping[str, LatencyModel]
    allreduce: AllreduceModel
    law: IterationLaw = IterationLaw.SUMS
    noise: Noise = Noise.INTEGRAL
    draws: int = 1000
    seed: int = 0

    def predict(self, job: Job, configs: ConfigTable) -> ForecastTable:
        """Returns one forecast per configuration.

        Args:
            job: gives the gradient schedule and how it is exchanged.
            configs: every GPU model in it has a latency model.

        Raises:
            ModelError: a GPU model has no latency model.
        """
        for offer in configs.offers:
            if offer.instance_type.gpu not in self.latency:
                raise ModelError(
                    f"no latency model for {offer.instance_type.gpu} ({offer.instance_type.name}); "
                    f"there are: {', '.join(sorted(self.latency))}"
                )
        transfers = job_transfers(job)
        tables = [
            self._predict_chunk(job, configs.take(slice(start, start + _CHUNK_ROWS)), transfers)
            for start in range(0, len(configs), _CHUNK_ROWS)
        ]
        return ForecastTable.concatenate(tables or [_empty_forecasts()])

    def warnings(self, job: Job, config: ClusterConfig) -> tuple[str, ...]:
        """See `Predictor.warnings`: what the allreduce model doubts, and what would not run."""
        transfers = job_transfers(job)
        if transfers is None or config.world_size == 1:
            return ()
        sizes = np.unique(transfers.sizes_bytes)
        kinds = dict.fromkeys(group.offer.instance_type for group in config.groups)
        return tuple(
            sentence
            for kind in kinds
            for sentence in self.allreduce.warnings(kind, config.world_size, config.vms, sizes)
        ) + unfound_warnings(job)

    def assumptions(self, job: Job, offers: Sequence[Offer]) -> tuple[str, ...]:
        """Returns what the forecasts take for granted, in full sentences."""
        kinds = tuple(dict.fromkeys(offer.instance_type for offer in offers))
        gpus = tuple(dict.fromkeys(kind.gpu for kind in kinds))
        models = [self.latency[gpu] for gpu in gpus]
        clauses = dict.fromkeys(clause for model in models for clause in model.assumptions)
        sentences = [
            f"{models[0].workload} on "
            f"{', '.join(m.gpu for m in models if clause in m.assumptions)}: {clause}"
            for clause in clauses
        ]
        sentences += self.allreduce.assumptions(kinds)
        if len(kinds) > 1:
            sentences.append(
                "Mixed instance types: the slowest type's allreduce time at the total world size "
                "counts (on shaped links this was up to 12 % optimistic)."
            )
        profile = schedule_profile(job)
        if profile is None:
            sentences.append("No gradient sizes are known: the exchange is left out.")
        elif profile.gradients is not None:
            sentences += gradient_assumptions(profile.gradients, job.sync)
        sentences += cpu_assumptions(job, gpus)
        if all(p.input_samples_per_s_per_vcpu is None for p in job.profiles):
            sentences.append("Input is assumed free: no loader was measured.")
        return tuple(sentences)

    def ready_times(
        self, groups: WorkerGroups, transfers: Transfers | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns when transfers are ready and computation ends on the slowest worker.

        Args:
            groups: R configurations.
            transfers: K transfers; None: none.

        Returns:
            (R, K) ready times, (R,) end of computation, (R,) its standard deviation; seconds.
        """
        std = np.sqrt(groups.step_std**2 + groups.spatial_std**2)
        before, backward = groups.before_s, groups.backward_s
        if self.law is IterationLaw.PAPER:
            forward_s, forward_std = self._slowest(before, std * before, groups.workers)
            backward_s, backward_std = self._slowest(backward, std * backward, groups.workers)
            ready_s = forward_s[:, None] + self._ready_s(groups, transfers, np.zeros_like(before))
            return ready_s, forward_s + backward_s, np.hypot(forward_std, backward_std)
        ends = before + backward
        compute_s, compute_std_s = self._slowest(ends, std * ends, groups.workers)
        return self._ready_s(groups, transfers, before), compute_s, compute_std_s

    def _ready_s(
        self, groups: WorkerGroups, transfers: Transfers | None, before_s: FloatArray
    ) -> FloatArray:
        """Returns (R, K) the mean time at which the slowest worker has transfer k ready.

        Args:
            groups: R configurations.
            transfers: K transfers; None: none.
            before_s: (R, H) the start of the backward pass.
        """
        rows = len(before_s)
        if transfers is None or not len(transfers):
            return np.zeros((rows, 0))
        backward_s = groups.backward_s
        std = np.sqrt(groups.step_std**2 + groups.spatial_std**2)

        def slowest_at(rows: IntArray, fractions: FloatArray) -> FloatArray:
            """Returns (N, M) values, from fractions that broadcast to (N, M, H)."""
            means = before_s[rows, None, :] + fractions * backward_s[rows, None, :]
            stds = std[rows, None, :] * means
            workers = groups.workers[rows]
            if self.noise is Noise.INTEGRAL:
                return expected_maximum(means, stds, workers[:, None, :])[0]
            columns = [
                self._slowest(means[:, k], stds[:, k], workers)[0] for k in range(means.shape[1])
            ]
            return np.stack(columns, axis=1)

        if not transfers.vary:
            return convex_values(
                lambda rows, at: slowest_at(rows, at[None, :, None]), rows, transfers.ready
            )
        ready, kind = _ready_of_workers(groups, transfers)
        near_s = np.zeros((rows, len(transfers)))
        for h in range(kind.shape[1]):
            mean_s = ready[kind[:, h]]
            mean_s *= backward_s[:, h, None]
            mean_s += before_s[:, h, None]
            np.maximum(near_s, mean_s, out=near_s)
        return path_values(
            lambda rows, at: slowest_at(rows, ready[kind[rows][:, None, :], at[None, :, None]]),
            near_s,
        )

    def _slowest(
        self, means: FloatArray, stds: FloatArray, workers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns mean and standard deviation of each row's slowest worker."""
        if self.noise is Noise.SAMPLED:
            rng = np.random.default_rng(self.seed)
            counts = workers.astype(np.int64)
            drawn = [
                sampled_maximum(means[r], stds[r], counts[r], draws=self.draws, rng=rng)
                for r in range(len(means))
            ]
            return np.array([mean for mean, _ in drawn]), np.array([std for _, std in drawn])
        return expected_maximum(means, stds, workers)

    def _predict_chunk(
        self, job: Job, configs: ConfigTable, transfers: Transfers | None
    ) -> ForecastTable:
        groups = worker_groups(self.latency, configs)
        rows = np.arange(len(configs))
        ready_s, compute_s, compute_std_s = self.ready_times(groups, transfers)
        if transfers:
            world = ExchangeTimes.of(self.allreduce, configs, transfers.sizes_bytes)
            ends = exchange_ends(ready_s, world, job.sync, transfers.sizes_bytes)
            alone = world.world_size <= 1
            end_s = np.where(alone, 0.0, ends.end_s)
            busy_start_s = ends.last_busy_start_s
            allocation, model = world.allocation_fraction, world.model_fraction
        else:
            end_s = busy_start_s = allocation = model = np.zeros(len(configs))
        optimizer_s = np.where(groups.workers > 0, groups.optimizer_s, 0.0).max(axis=1)
        busy_end_s = np.maximum(compute_s, end_s)
        input_s = self._input_s(job, configs)
        mean_s = np.maximum(input_s, busy_end_s + optimizer_s)

        # Where the exchange decides, it has run without a pause since `busy_start_s`: up to there
        # computation's errors count, after it the network's.
        computed_s = np.where(end_s > compute_s, np.minimum(busy_start_s, compute_s), compute_s)
        network_s = busy_end_s - computed_s
        slowest = np.where(groups.workers > 0, groups.before_s + groups.backward_s, -np.inf).argmax(
            axis=1
        )
        step, spatial = groups.step_std[rows, slowest], groups.spatial_std[rows, slowest]
        noise = np.maximum(np.hypot(step, spatial), 1e-300)
        noise_s = compute_std_s * (computed_s / compute_s)
        last_s = groups.backward_s[rows, slowest]
        forward_share = groups.forward_s[rows, slowest] / (groups.before_s[rows, slowest] + last_s)
        latency_error_s = groups.model_std[rows, slowest] * (computed_s + optimizer_s)
        return ForecastTable(
            mean_s=mean_s,
            step_std_s=noise_s * step / noise,
            allocation_std_s=allocation * network_s,
            gpu_std_s=noise_s * spatial / noise,
            model_std_s=np.hypot(latency_error_s, model * network_s),
            forward_s=compute_s * forward_share,
            backward_s=compute_s * (1 - forward_share),
            exchange_s=np.maximum(end_s - (compute_s - last_s), 0.0),
            exposed_exchange_s=busy_end_s - compute_s,
            optimizer_s=optimizer_s,
            input_s=input_s,
        )

    def _input_s(self, job: Job, configs: ConfigTable) -> FloatArray:
        """Returns (R,) seconds that the slowest VM's loader needs for its samples; 0 if unknown."""
        seconds_per_sample = np.zeros(len(configs.offers))
        for index, offer in enumerate(configs.offers):
            profile = job.profile_for(offer.instance_type.gpu)
            if profile is not None and profile.input_samples_per_s_per_vcpu is not None:
                rate = profile.input_samples_per_s_per_vcpu * offer.instance_type.vcpus
                seconds_per_sample[index] = 1 / rate
        per_vm = configs.samples_per_vm * seconds_per_sample[configs.offer]
        return np.where(configs.count > 0, per_vm, 0.0).max(axis=1)


def _ready_of_workers(groups: WorkerGroups, transfers: Transfers) -> tuple[FloatArray, IntArray]:
    """Returns the ready fractions of each kind of worker (B, K), and the kinds (R, H).

    Workers are of one kind that have the same GPU model and the same micro-batch.
    """
    most = int(groups.micro_batch.max()) + 1
    keys, kind = np.unique(groups.gpu * most + groups.micro_batch, return_inverse=True)
    ready = np.empty((len(keys), len(transfers)))
    for index, gpu in enumerate(groups.gpus):
        here = keys // most == index
        ready[here] = transfers.ready_at(gpu, keys[here] % most)
    return ready, kind.reshape(groups.gpu.shape)


def _empty_forecasts() -> ForecastTable:
    empty = np.zeros(0)
    return ForecastTable(*([empty] * 11))
