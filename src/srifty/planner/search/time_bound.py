"""What the iterations of a node's completions take at least, and how far they spread at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from srifty.core.hardware import InstanceType
from srifty.planner.search.nodes import Nodes
from srifty.planner.search.options import Options
from srifty.planner.supply import TypeSupply
from srifty.simulator.bounds import IterationBounds

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# An instance type, world sizes, VMs, transfers, and ranks per VM.
TableKey = tuple[InstanceType, int, int, int, int]

# World sizes and VMs are tabled exactly up to this many, then in steps of a few per cent: a node is
# answered by the next smaller ones, which exchange no slower.
_EXACT = 20
_STEP = 1.05


@dataclass(frozen=True)
class TimeBound:
    """Tables of a place's least exchange times.

    Attributes:
        options: the place's options.
        bounds: the predictor's bounds.
        world_sizes: (W,) tabled world sizes.
        vms: (V,) tabled numbers of VMs.
        exchange_s: (T, W, V, K) seconds from the start of transfer k to the end, at least.
        exchange_spread: least spread of exposed exchange, a fraction.
        later_types: (T,) bits of the types that stand after each one where types are in the order
            of their exchange times. Any order is right; this one tells them apart best.
        gpus_until: (T,) most GPUs of a VM among the types up to each one in that order.
    """

    options: Options
    bounds: IterationBounds
    world_sizes: IntArray
    vms: IntArray
    exchange_s: FloatArray
    exchange_spread: float
    later_types: IntArray
    gpus_until: IntArray

    @classmethod
    def of(
        cls,
        supplies: Sequence[TypeSupply],
        options: Options,
        bounds: IterationBounds,
        known: dict[TableKey, FloatArray],
    ) -> Self:
        """Returns the tables of a place.

        Args:
            supplies: what can be had.
            options: its options.
            bounds: the predictor's bounds.
            known: tables of other places, to which new ones are added.
        """
        most = sum(supply.workers for supply in supplies)
        world_sizes = _steps(min(most, int(options.most_workers.max(initial=1)) * options.types))
        vms = _steps(min(sum(supply.vms for supply in supplies), int(world_sizes[-1])))
        n, v = (axis.reshape(-1) for axis in np.meshgrid(world_sizes, vms, indexing="ij"))
        shape = (len(world_sizes), len(vms), options.ready_s.shape[1])
        per_vm = int(options.gpus.max())
        kinds = [supply.instance_type for supply in supplies]
        tables: list[FloatArray] = []
        for kind in kinds:
            key = (kind, *shape, per_vm)
            if key not in known:
                least_s = bounds.exchange_s(kind, n, np.minimum(v, n), most_per_vm=per_vm)
                known[key] = least_s.reshape(shape)
            tables.append(known[key])
        exchange_s = np.stack(tables)
        middle_s = exchange_s[:, len(world_sizes) // 2, len(vms) // 2].max(axis=1, initial=0.0)
        order = np.argsort(middle_s, kind="stable")
        later, gpus_until = np.zeros_like(order), np.zeros_like(order)
        bits = np.int64(1) << order
        later[order] = bits.sum() - np.cumsum(bits)
        gpus_until[order] = np.maximum.accumulate(options.gpus[order])
        return cls(
            options,
            bounds,
            world_sizes,
            vms,
            exchange_s,
            min(bounds.exchange_spread(kind) for kind in kinds),
            later,
            gpus_until,
        )

    def least(
        self, nodes: Nodes, others: IntArray, coming: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (N,) the least mean of an iteration, and its least lasting spread; seconds.

        Args:
            nodes: N nodes.
            others: (N,) workers that are still to come, at least.
            coming: (N,) a type that is among those to come, the last in the order of exchange
                times; None: not known.
        """
        options = self.options
        anchor, first = nodes.option[:, 0], nodes.workers[:, 0]
        first = np.where(options.is_open[anchor], 1, first)
        kind = options.kind[anchor]
        ready_s = options.ready_s[anchor] * options.straggling[kind, first][:, None]
        exchange_s = np.zeros_like(ready_s)
        world_size = nodes.world_size + others
        gpus = options.gpus.max() if coming is None else self.gpus_until[coming]
        vms = nodes.vms + -(-others // gpus)
        n = np.searchsorted(self.world_sizes, world_size, side="right") - 1
        v = np.searchsorted(self.vms, vms, side="right") - 1
        for column in range(int(nodes.depth.max(initial=0))):
            here = np.flatnonzero(nodes.depth > column)
            of_type = options.kind[nodes.option[here, column]]
            exchange_s[here] = np.maximum(
                exchange_s[here], self.exchange_s[of_type, n[here], v[here]]
            )
        if coming is not None:
            exchange_s = np.maximum(exchange_s, self.exchange_s[coming, n, v])
        compute_s = nodes.compute_s
        end_s = (ready_s + exchange_s).max(axis=1, initial=0.0)
        end_s = np.where(world_size > 1, end_s, 0.0)
        busy_s = np.maximum(compute_s, end_s)
        mean_s = np.maximum(nodes.input_s, busy_s + nodes.optimizer_s)
        # Errors of latencies count up to the last pause of the exchange, which is not before the
        # first transfer can start; those of the exchange count from there on.
        began_s = ready_s[:, 0] if ready_s.shape[1] else compute_s
        began_s = np.where(world_size > 1, np.minimum(began_s, compute_s), compute_s)
        latency, network = options.model_spread[anchor], self.exchange_spread
        with np.errstate(divide="ignore", invalid="ignore"):
            split_s = (network**2 * busy_s - latency**2 * nodes.optimizer_s) / (
                latency**2 + network**2
            )
        split_s = np.clip(np.nan_to_num(split_s), began_s, busy_s)
        spread_s = np.hypot(latency * (split_s + nodes.optimizer_s), network * (busy_s - split_s))
        return mean_s, spread_s


def _steps(most: int) -> IntArray:
    exact = np.arange(1, min(most, _EXACT) + 1)
    count = max(int(np.ceil(np.log(max(most, 1) / _EXACT) / np.log(_STEP))), 0)
    further = np.floor(_EXACT * _STEP ** np.arange(1, count + 1)).astype(np.int64)
    return np.unique(np.concatenate([exact, further[further <= most]]))
