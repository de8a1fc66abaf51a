"""What is sent in one iteration: buckets as DistributedDataParallel makes them, or single tensors.

DistributedDataParallel walks through the gradients in the order in which they become ready (after
its first iteration) and adds each to the open bucket; a bucket closes when it *reaches* its cap, so
it may exceed it by its last tensor. The first bucket has a smaller cap. A bucket leaves when its
last gradient is ready.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.core.job import GradientSync, Job, SyncMode
from srifty.core.profile import GradientSchedule, WorkloadProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Transfers:
    """The transfers of one iteration, in the order in which they are issued.

    Attributes:
        sizes_bytes: (K,) bytes of each.
        ready: (K,) when each can be issued, as a fraction of the backward pass; never falls.
        names: what each holds.
    """

    sizes_bytes: FloatArray
    ready: FloatArray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sizes_bytes)


def transfers_of(schedule: GradientSchedule, sync: GradientSync) -> Transfers:
    """Returns the transfers that `sync` makes of a gradient schedule."""
    if sync.mode is SyncMode.PER_LAYER:
        gradients = schedule.gradients
        return Transfers(
            np.array([gradient.bytes for gradient in gradients], dtype=np.float64),
            np.array([gradient.ready for gradient in gradients], dtype=np.float64),
            tuple(gradient.name for gradient in gradients),
        )
    sizes: list[float] = []
    ready: list[float] = []
    names: list[str] = []
    open_bytes = 0
    open_count = 0
    cap = sync.first_bucket_bytes
    last = len(schedule.gradients) - 1
    for index, gradient in enumerate(schedule.gradients):
        open_bytes += gradient.bytes
        open_count += 1
        if open_bytes >= cap or index == last:
            sizes.append(open_bytes)
            ready.append(gradient.ready)
            names.append(f"bucket {len(sizes)} ({open_count} tensors)")
            open_bytes = open_count = 0
            cap = sync.bucket_bytes
    return Transfers(np.array(sizes, dtype=np.float64), np.array(ready), tuple(names))


def job_transfers(job: Job) -> Transfers | None:
    """Returns the transfers of one iteration of a job, or None where gradients are unknown."""
    profile = schedule_profile(job)
    if profile is None or profile.gradients is None:
        return None
    return transfers_of(profile.gradients, job.sync)


def schedule_profile(job: Job) -> WorkloadProfile | None:
    """Returns the profile whose gradient schedule counts: the first measured one that has it."""
    with_gradients = [profile for profile in job.profiles if profile.gradients is not None]
    measured = [profile for profile in with_gradients if not profile.estimated]
    return next(iter(measured or with_gradients), None)
