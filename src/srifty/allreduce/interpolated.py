"""Plain interpolation of log time, in log size and then in log world size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.table import Points

FloatArray = NDArray[np.float64]


class InterpolatedCurve:
    """Passes through every measured point of a curve.

    Between sizes and between world sizes the logarithm of the time is linear. Below the smallest
    size the time stays, above the largest it grows with the bytes; beyond the measured worlds the
    nearest one is taken.
    """

    def __init__(self, points: Points) -> None:
        """Takes at least one point."""
        self._worlds = [
            (n, v, here.size_bytes, here.log_time)
            for n, v in points.worlds()
            for here in [points.of_world(n, v)]
        ]

    def log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> FloatArray:
        """Returns (P,) log seconds, point by point."""
        log_time = np.empty(len(size_bytes))
        # One number per world: sorting those is several times faster than sorting pairs.
        keys = world_size * 2.0**26 + vms
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1.0))
        for rows in np.split(order, starts[1:]):
            n, v = float(world_size[rows[0]]), float(vms[rows[0]])
            log_time[rows] = self._in_world(n, v, size_bytes[rows])
        return log_time

    def least_log_time(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray, most_per_vm: int
    ) -> FloatArray:
        """Returns (R, S) log seconds that no world of at least so many ranks undercuts.

        Along the worlds with equally many ranks per VM the logarithm is linear between measured
        worlds: it is least at the world size asked about or at a larger measured one.

        Args:
            world_size: (R,) ranks at least.
            vms: (R,) VMs at least; not looked at.
            size_bytes: (S,) sizes.
            most_per_vm: worlds have no more ranks than so many times their VMs.
        """
        del vms
        x = np.log(world_size)
        least = np.full((len(x), len(size_bytes)), np.inf)
        # Of the numbers of ranks per VM, those beyond the nearest to the ends never answer.
        ends = [self._alike(end) for end in (1.0, float(most_per_vm))]
        low, high = (sorted(n / v for n, v, *_ in worlds) for worlds in ends)
        for ranks_per_vm in {n / v for n, v, *_ in self._worlds}:
            if not low[0] - 1e-9 <= ranks_per_vm <= high[-1] + 1e-9:
                continue
            worlds = self._alike(ranks_per_vm)
            at = np.log(np.array([n for n, *_ in worlds], dtype=np.float64))
            curves = np.stack([_along_sizes(size_bytes, sizes, log) for *_, sizes, log in worlds])
            after = np.clip(np.searchsorted(at, x), 1, max(len(at) - 1, 1))
            after = np.minimum(after, len(at) - 1)
            before = np.maximum(after - 1, 0)
            width = np.where(after > before, at[after] - at[before], 1.0)
            share = np.clip((x - at[before]) / width, 0.0, 1.0)[:, None]
            here = (1 - share) * curves[before] + share * curves[after]
            larger = np.minimum.accumulate(curves[::-1], axis=0)[::-1]
            np.minimum(least, np.minimum(here, larger[after]), out=least)
        return least

    def _in_world(self, world_size: float, vms: float, size_bytes: FloatArray) -> FloatArray:
        worlds = self._alike(world_size / vms)
        at = np.log(np.array([n for n, *_ in worlds], dtype=np.float64))
        curves = np.stack([_along_sizes(size_bytes, sizes, times) for *_, sizes, times in worlds])
        x = float(np.log(world_size))
        after = int(np.searchsorted(at, x))
        if after == 0 or after == len(at):
            return curves[min(after, len(at) - 1)]
        share = (x - at[after - 1]) / (at[after] - at[after - 1])
        return (1 - share) * curves[after - 1] + share * curves[after]

    def _alike(self, ranks_per_vm: float) -> list[tuple[int, int, FloatArray, FloatArray]]:
        """Returns the worlds with as many ranks per VM, or with the nearest number of them."""
        distance = [abs(np.log((n / v) / ranks_per_vm)) for n, v, *_ in self._worlds]
        least = min(distance)
        alike = zip(self._worlds, distance, strict=True)
        return [world for world, far in alike if far <= least + 1e-9]


def _along_sizes(wanted: FloatArray, sizes: FloatArray, log_time: FloatArray) -> FloatArray:
    inside = np.interp(np.log(wanted), np.log(sizes), log_time)
    return inside + np.maximum(np.log(wanted / sizes[-1]), 0.0)
