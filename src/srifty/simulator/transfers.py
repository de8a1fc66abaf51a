"""What is sent in one iteration: buckets as DistributedDataParallel makes them, or single tensors.

Order, sizes and buckets are the same on all workers and come from one schedule; when a bucket is
ready depends on a worker's own micro-batch, where the profiles know that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from srifty.core.buckets import Bucket, buckets_as_ready, buckets_as_registered, ready_in_turn
from srifty.core.job import GradientSync, Job, SyncMode
from srifty.core.profile import Gradient, GradientSchedule, WorkloadProfile

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ReadyByBatch:
    """When transfers can be issued, at several batch sizes.

    Attributes:
        batches: (J,) batch sizes, ascending.
        fractions: (J, K) fractions of the backward pass; never falls along K.
    """

    batches: FloatArray
    fractions: FloatArray

    def at(self, micro_batches: IntArray) -> FloatArray:
        """Returns (N, K) fractions at N batch sizes.

        Between two sizes they follow the logarithm of the batch; beyond the ends the nearest size
        counts.
        """
        known, asked = np.log(self.batches), np.log(np.maximum(micro_batches, 1))
        upper = np.clip(np.searchsorted(known, asked), 1, max(len(known) - 1, 1))
        lower = upper - 1
        upper = np.minimum(upper, len(known) - 1)
        width = np.where(upper > lower, known[upper] - known[lower], 1.0)
        share = np.clip((asked - known[lower]) / width, 0.0, 1.0)[:, None]
        return (1 - share) * self.fractions[lower] + share * self.fractions[upper]


@dataclass(frozen=True)
class Transfers:
    """The transfers of one iteration, in the order in which they are issued.

    Attributes:
        sizes_bytes: (K,) bytes of each.
        ready: (K,) when each can be issued, as a fraction of the backward pass; never falls.
        names: what each holds.
        by_gpu: the same by batch size for workers with a GPU model, by its name.
        by_batch: the same for workers with any other GPU model; None: `ready` at every size.
    """

    sizes_bytes: FloatArray
    ready: FloatArray
    names: tuple[str, ...]
    by_gpu: Mapping[str, ReadyByBatch] = field(default_factory=dict[str, ReadyByBatch])
    by_batch: ReadyByBatch | None = None

    def __len__(self) -> int:
        return len(self.sizes_bytes)

    @property
    def vary(self) -> bool:
        """Whether ready fractions depend on the worker."""
        return len(self) > 0 and (self.by_batch is not None or bool(self.by_gpu))

    def ready_at(self, gpu: str, micro_batches: IntArray) -> FloatArray:
        """Returns (N, K) when each can be issued on N workers with one GPU model.

        Args:
            gpu: its name.
            micro_batches: (N,) samples in a worker's last pass.
        """
        known = self.by_gpu.get(gpu, self.by_batch)
        if known is None:
            return np.broadcast_to(self.ready, (len(micro_batches), len(self)))
        return known.at(micro_batches)


def transfers_of(
    schedule: GradientSchedule,
    sync: GradientSync,
    of_gpus: Mapping[str, GradientSchedule] | None = None,
) -> Transfers:
    """Returns the transfers that `sync` makes of a gradient schedule.

    Args:
        schedule: decides on order, sizes and buckets.
        sync: how gradients are exchanged.
        of_gpus: schedules of the same gradients on GPU models, which know ready times by batch.
    """
    if sync.mode is SyncMode.PER_LAYER:
        sent: Sequence[Bucket] = [(parameter,) for parameter in schedule.parameters]
        names = tuple(parameter.name for parameter in schedule.parameters)
    else:
        sent = _buckets(schedule, sync)
        names = tuple(f"bucket {k} ({len(bucket)} tensors)" for k, bucket in enumerate(sent, 1))
    silent = {id(parameter) for parameter in schedule.unused}
    # Without buckets, what stays away is made up for when the backward pass has ended.
    silent_at = 1.0 if sync.mode is SyncMode.PER_LAYER else None

    def in_turn(ready: Callable[[Gradient], float]) -> list[float]:
        return ready_in_turn(sent, lambda g: silent_at if id(g) in silent else ready(g))

    def by_batch(known: GradientSchedule) -> ReadyByBatch:
        ready_at = {gradient.name: gradient.ready_at for gradient in known.gradients}
        fractions = [in_turn(lambda g, b=batch: ready_at[g.name][b]) for batch in known.batches]
        return ReadyByBatch(np.array(known.batches, dtype=np.float64), np.array(fractions))

    return Transfers(
        np.array([sum(each.bytes for each in bucket) for bucket in sent], dtype=np.float64),
        np.array(in_turn(lambda gradient: gradient.ready), dtype=np.float64),
        names,
        {gpu: by_batch(known) for gpu, known in (of_gpus or {}).items()},
        by_batch(schedule) if schedule.batches else None,
    )


def job_transfers(job: Job) -> Transfers | None:
    """Returns the transfers of one iteration of a job, or None where gradients are unknown."""
    profile = schedule_profile(job)
    if profile is None or profile.gradients is None:
        return None
    schedule = profile.gradients
    names = {gradient.name for gradient in schedule.gradients}
    of_gpus = {
        other.gpu: other.gradients
        for other in job.profiles
        if other.gradients is not None
        and other.gradients.batches
        and (schedule.estimated or not other.gradients.estimated)
        and {gradient.name for gradient in other.gradients.gradients} == names
    }
    return transfers_of(schedule, job.sync, of_gpus)


def schedule_profile(job: Job) -> WorkloadProfile | None:
    """Returns the profile whose gradient schedule counts: the first measured one that has it."""
    with_gradients = [profile for profile in job.profiles if profile.gradients is not None]
    measured = [profile for profile in with_gradients if not profile.estimated]
    return next(iter(measured or with_gradients), None)


def keeps_registration(schedule: GradientSchedule, sync: GradientSync) -> bool:
    """Returns whether buckets stay as parameters are registered: `find_unused_parameters`."""
    if sync.mode is SyncMode.PER_LAYER:
        return False
    if sync.find_unused_parameters is None:
        return schedule.find_unused_parameters
    return sync.find_unused_parameters


def _buckets(schedule: GradientSchedule, sync: GradientSync) -> list[Bucket]:
    caps = (sync.first_bucket_bytes, sync.bucket_bytes)
    if not keeps_registration(schedule, sync):
        return buckets_as_ready(schedule.parameters, caps)
    # Modules are mostly registered as they are used, and gradients come the other way round.
    return buckets_as_registered(schedule.registered or schedule.parameters[::-1], caps)
