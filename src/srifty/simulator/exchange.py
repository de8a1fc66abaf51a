"""The exchange of many configurations: what transfers take alone, and when the last one ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import AllreduceModel
from srifty.allreduce.table import bus_bytes_of
from srifty.core.job import GradientSync, Sharing
from srifty.simulator import lockstep
from srifty.simulator.sharing import line_seconds
from srifty.simulator.tables import ConfigTable

# Of the slowest link's pace, what a ring over links of unequal speed reaches. gloo on shaped links:
# 93 to 94 % for 1 MiB and 87 to 88 % for 4 MiB among four ranks, one or two of them on a link two
# to four times as fast; all of it among two. Unknown of NCCL, where too slow is the safe side.
UNEQUAL_RING = 0.91
_EQUAL = 1.05  # capacities this near are those of one link

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ExchangeTimes:
    """What the allreduce model says of each configuration.

    The slowest instance type counts, and where links differ `UNEQUAL_RING` of its pace.

    Attributes:
        world_size: (R,) ranks.
        alone_s: (R, K) seconds of each transfer by itself.
        capacity: (R,) bus bytes per second that transfers share.
        allocation_fraction: (R,) spread between allocations.
        model_fraction: (R,) error of the model.
    """

    world_size: IntArray
    alone_s: FloatArray
    capacity: FloatArray
    allocation_fraction: FloatArray
    model_fraction: FloatArray

    @classmethod
    def of(
        cls, model: AllreduceModel, configs: ConfigTable, sizes_bytes: FloatArray
    ) -> ExchangeTimes:
        """Asks the model once per instance type."""
        world_size, vms = configs.world_size, configs.vms
        rows, count = len(configs), len(sizes_bytes)
        alone_s = np.zeros((rows, count))
        capacity, fastest = np.full(rows, np.inf), np.zeros(rows)
        allocation, error = np.zeros(rows), np.zeros(rows)
        kinds = [offer.instance_type for offer in configs.offers]
        for kind in dict.fromkeys(kinds):
            of_kind = np.array([other == kind for other in kinds])
            here = np.flatnonzero((of_kind[configs.offer] & (configs.count > 0)).any(axis=1))
            if not here.size:
                continue
            n, v = world_size[here], vms[here]
            alone_s[here] = np.maximum(alone_s[here], model.time_s(kind, n, v, sizes_bytes))
            own = model.bus_capacity(kind, n, v)
            capacity[here] = np.minimum(capacity[here], own)
            fastest[here] = np.maximum(fastest[here], own)
            uncertainty = model.uncertainty(kind, n, v, sizes_bytes)
            allocation[here] = np.maximum(allocation[here], uncertainty.allocation_fraction)
            error[here] = np.maximum(error[here], uncertainty.model_fraction)
        unequal = (fastest > _EQUAL * capacity) & (world_size > 2)
        if unequal.any():
            # Latencies stay; what bytes take grows.
            bus_bytes = bus_bytes_of(sizes_bytes[None, :], world_size[unequal, None])
            bytes_s = np.minimum(bus_bytes / capacity[unequal, None], alone_s[unequal])
            alone_s[unequal] += bytes_s * (1 / UNEQUAL_RING - 1)
            capacity[unequal] *= UNEQUAL_RING
        return cls(world_size, alone_s, capacity, allocation, error)


def exchange_ends(
    ready_s: FloatArray, world: ExchangeTimes, sync: GradientSync, sizes_bytes: FloatArray
) -> lockstep.Ends:
    """Returns when each configuration's exchange ends, under the sharing rule of `sync`.

    Args:
        ready_s: (R, K) ready times.
        world: times and capacities.
        sync: slots or the paper's rule.
        sizes_bytes: (K,) bytes of each transfer.
    """
    if sync.sharing is Sharing.SLOTS and sync.slots == 1:
        return lockstep.one_slot(ready_s, world.alone_s)
    n = np.maximum(world.world_size, 2)[:, None]
    bus_bytes = 2 * sizes_bytes[None, :] * (n - 1) / n
    # A world of one exchanges nothing; any positive time keeps its arithmetic finite.
    alone_s = np.where(world.world_size[:, None] > 1, world.alone_s, 1e-9)
    if sync.sharing is Sharing.PAPER:
        _, size_class = np.unique(sizes_bytes, return_inverse=True)
        return lockstep.paper_sharing(ready_s, alone_s, bus_bytes, world.capacity, size_class)
    line_s = line_seconds(bus_bytes, alone_s, world.capacity[:, None])
    return lockstep.some_slots(ready_s, alone_s, line_s, sync.slots)
