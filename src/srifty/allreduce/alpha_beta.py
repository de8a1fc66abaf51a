"""The analytic model: a ring with a start-up latency and a bandwidth per link level.

With n ranks on V VMs, `w = 2 s (n−1) / n` bus bytes per rank (Patarasu & Yuan 2009), and the links
between VMs deciding as soon as there is more than one:

    latency   a = base + 2 (V−1) α_between + 2 (n−V) α_inside
    transfer  b = w / β           β = β_between if V > 1 else β_inside
    T = a + b   or   T = max(a, b)

Whether latency and transfer add up or overlap is chosen per instance type by the error of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.base import Uncertainty
from srifty.allreduce.table import bus_bytes_of, learnable
from srifty.core.allreduce import AllreduceSample
from srifty.core.hardware import InstanceType
from srifty.units import format_bandwidth, gbit_to_bytes_per_s

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Repeats of one configuration on public clouds differ by about 10 % at 1 MiB and above (GCP V100
# VMs, public nccl-tests logs).
_ALLOCATION_FRACTION = 0.10
_LEAST_MODEL_FRACTION = 0.05
# An instance type known by its rated network speed alone.
_UNMEASURED_MODEL_FRACTION = 0.30


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """The ring model of one instance type.

    Attributes:
        base_s: latency whatever the number of ranks.
        alpha_between_s: latency per hop between VMs.
        alpha_inside_s: latency per hop inside a VM.
        beta_between: bus bytes per second between VMs.
        beta_inside: bus bytes per second inside a VM.
        overlap: whether latency and transfer overlap (`max`) or add up.
        model_fraction: standard deviation of the relative error.
        basis: where the figures come from, for people.
    """

    base_s: float
    alpha_between_s: float
    alpha_inside_s: float
    beta_between: float
    beta_inside: float
    overlap: bool
    model_fraction: float
    basis: str

    def time_s(self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray) -> FloatArray:
        """Returns seconds per allreduce; the three arrays broadcast against each other."""
        latency, transfer = self._parts(world_size, vms, size_bytes)
        total = np.maximum(latency, transfer) if self.overlap else latency + transfer
        return np.where(world_size > 1, total, 0.0)

    def _parts(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        hops_between = 2 * (vms - 1)
        hops_inside = 2 * (world_size - vms)
        latency = (
            self.base_s + hops_between * self.alpha_between_s + hops_inside * self.alpha_inside_s
        )
        per_byte = (2 * (world_size - 1) / world_size) / self.capacity(vms)
        return latency, size_bytes * per_byte

    def least_time_s(
        self, world_size: FloatArray, vms: FloatArray, size_bytes: FloatArray
    ) -> FloatArray:
        """Returns seconds that no world of at least so many ranks and VMs undercuts.

        Each rank that is no VM's first is a hop more, inside a VM or between two; and the part of
        the bytes that crosses, `(n−1)/n`, grows with n.
        """
        hop = min(self.alpha_between_s, self.alpha_inside_s)
        latency = self.base_s + 2 * (vms - 1) * self.alpha_between_s + 2 * (world_size - vms) * hop
        fastest = np.where(vms > 1, self.beta_between, max(self.beta_between, self.beta_inside))
        transfer = size_bytes * (2 * (world_size - 1) / world_size) / fastest
        total = np.maximum(latency, transfer) if self.overlap else latency + transfer
        return np.where(world_size > 1, total * _ROUNDING, 0.0)

    def capacity(self, vms: FloatArray) -> FloatArray:
        """Returns the bus bandwidth that decides, bytes per second."""
        return np.where(vms > 1, self.beta_between, self.beta_inside)


# Links inside a VM that no sample covers. PCIe: a ring over 3.0 x16 slots through the host moves
# about half of the 15.8 GB/s that the slot rates. Assumed, not measured.
_PCIE = LinkParameters(15e-6, 0.0, 5e-6, 8e9, 8e9, False, 0.3, "PCIe, assumed")
# NVLink where no sample shows it; 8 V100 of a DGX-1 reach about twice that.
_NVLINK = replace(_PCIE, beta_inside=60e9, basis="NVLink, assumed")
# Between VMs that nothing similar covers: TCP reaches about half of the rated speed on the measured
# AWS types (1 GPU per VM), with some 50 µs per hop.
BETWEEN_EFFICIENCY = 0.5
_BETWEEN_ALPHA_S = 50e-6
_ROUNDING = 1 - 1e-9  # lower bounds stay below what they bound
# In-network reduction lifts bus bandwidth somewhat above the line rate (480 on 400 GB/s, p5), never
# twice as high.
_MOST_OVER_RATED = 2.0


class AlphaBetaModel:
    """The ring model of every instance type: fitted where measured, else from its data sheet."""

    def __init__(self) -> None:
        self._measured: dict[str, LinkParameters] = {}
        self._resolved: dict[str, LinkParameters] = {}
        self._nvlink: dict[str, LinkParameters] = {}

    def fit(self, samples: Sequence[AllreduceSample]) -> Self:
        """Fits one set of parameters per instance type, by relative error; returns itself.

        Args:
            samples: measured allreduces; several transports of one type are fitted apart and the
                slowest is kept, since a plan does not know which one the run will get.
        """
        self._measured.clear()
        self._resolved.clear()
        self._nvlink.clear()
        by_type: dict[str, dict[str, list[AllreduceSample]]] = {}
        for sample in learnable(samples):
            if sample.concurrent > 1:
                continue
            transports = by_type.setdefault(sample.instance_type, {})
            transports.setdefault(sample.transport, []).append(sample)
        for name, transports in by_type.items():
            fits = [_fit_type(rows, transport) for transport, rows in transports.items()]
            self._measured[name] = min(fits, key=lambda links: links.beta_between)
            if "nvlink" in transports:
                nvlink = _fit_type(transports["nvlink"], "nvlink")
                model = _model(transports["nvlink"][0].gpu)
                slowest = self._nvlink.get(model)
                if slowest is None or nvlink.beta_inside < slowest.beta_inside:
                    self._nvlink[model] = replace(nvlink, basis=f"NVLink as on {name}")
        return self

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        return self.links(instance_type).time_s(
            world_size[:, None].astype(np.float64),
            vms[:, None].astype(np.float64),
            size_bytes[None, :],
        )

    def least_time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        *,
        most_per_vm: int,
    ) -> FloatArray:
        """See `FlooredAllreduce.least_time_s`."""
        del most_per_vm
        return self.links(instance_type).least_time_s(
            world_size[:, None].astype(np.float64),
            vms[:, None].astype(np.float64),
            size_bytes[None, :],
        )

    def least_spread(self, instance_type: InstanceType) -> float:
        """See `FlooredAllreduce.least_spread`: it is the same for every world."""
        return float(np.hypot(_ALLOCATION_FRACTION, self.links(instance_type).model_fraction))

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`."""
        del world_size  # a ring's bus bandwidth does not depend on it
        return self.links(instance_type).capacity(vms.astype(np.float64))

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`; the same for every world and size."""
        del vms, size_bytes
        model_fraction = self.links(instance_type).model_fraction
        rows = len(world_size)
        return Uncertainty(np.full(rows, _ALLOCATION_FRACTION), np.full(rows, model_fraction))

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        return tuple(
            f"Allreduce on {kind.name}: {self.links(kind).basis}."
            for kind in dict.fromkeys(instance_types)
        )

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`; the assumptions say all."""
        del instance_type, world_size, vms, size_bytes
        return ()

    def inside(self, instance_type: InstanceType) -> str:
        """Returns what the links inside a VM of the type rest on, in one sentence."""
        links = self.links(instance_type)
        default = self._default_inside(instance_type)
        assumed = links.beta_inside == default.beta_inside
        basis = default.basis if assumed else "measured"
        return f"Inside {instance_type.name}: {format_bandwidth(links.beta_inside)} ({basis})."

    def links(self, instance_type: InstanceType) -> LinkParameters:
        """Returns the parameters of a type: measured, or carried over from its nearest relative."""
        name = instance_type.name
        if name not in self._resolved:
            self._resolved[name] = self._resolve(instance_type)
        return self._resolved[name]

    def _default_inside(self, kind: InstanceType) -> LinkParameters:
        """Returns the links inside a type that was not measured: NVLink as on the same GPU model.

        Where no such GPU was measured, the slowest measured NVLink stands in.
        """
        if not kind.nvlink:
            return _PCIE
        slowest = min(self._nvlink.values(), key=lambda links: links.beta_inside, default=_NVLINK)
        return self._nvlink.get(_model(kind.gpu), slowest)

    def _resolve(self, kind: InstanceType) -> LinkParameters:
        default_inside = self._default_inside(kind)
        rated = gbit_to_bytes_per_s(kind.rated_gbit_per_s)
        links = self._measured.get(kind.name)
        if links is None:
            links = replace(
                default_inside,
                alpha_between_s=_BETWEEN_ALPHA_S,
                beta_between=np.inf,
                model_fraction=_UNMEASURED_MODEL_FRACTION,
                basis="not measured (±30 %)",
            )
        # Small messages alone say nothing about bandwidth: their fit has none, or an absurd one.
        if links.beta_between > _MOST_OVER_RATED * rated:
            links = replace(
                links,
                alpha_between_s=links.alpha_between_s or _BETWEEN_ALPHA_S,
                beta_between=BETWEEN_EFFICIENCY * rated,
                model_fraction=max(links.model_fraction, _UNMEASURED_MODEL_FRACTION),
                basis=f"{links.basis}; {BETWEEN_EFFICIENCY:.0%} of the rated "
                f"{kind.rated_gbit_per_s:g} Gbit/s between VMs",
            )
        if not np.isfinite(links.beta_inside):
            links = replace(
                links,
                beta_inside=default_inside.beta_inside,
                alpha_inside_s=default_inside.alpha_inside_s,
            )
        if kind.gpus > 1 and links.beta_inside == default_inside.beta_inside:
            inside = f"{format_bandwidth(links.beta_inside)} inside ({default_inside.basis})"
            links = replace(links, basis=f"{links.basis}; {inside}")
        return links


def _model(gpu: str) -> str:
    """Returns a GPU's model without its memory: `A100` of `A100-40GB`."""
    return gpu.split("-", 1)[0]


def _fit_type(samples: Sequence[AllreduceSample], transport: str) -> LinkParameters:
    """Returns the parameters that fit the samples of one type and transport best."""
    n = np.array([sample.world_size for sample in samples], dtype=np.float64)
    vms = np.array([sample.vms for sample in samples], dtype=np.float64)
    size = np.array([sample.size_bytes for sample in samples], dtype=np.float64)
    time = np.array([sample.time_s for sample in samples])
    bus_bytes = bus_bytes_of(size, n)
    many = vms > 1
    latency = np.stack([np.ones_like(n), 2 * (vms - 1), 2 * (n - vms)], axis=1)
    transfer = np.stack([bus_bytes * many, bus_bytes * ~many], axis=1)
    # Where only one world was measured, a constant and a latency per hop cannot be told apart; per
    # hop is what a ring does.
    if len({(int(a), int(b)) for a, b in zip(n, vms, strict=True)}) == 1:
        latency[:, 0] = 0.0
    add = _nonnegative_fit(np.concatenate([latency, transfer], axis=1), time)
    overlap = _overlapping_fit(latency, transfer, time, add)
    errors = [
        _relative(add[:3] @ latency.T + add[3:] @ transfer.T, time),
        _relative(np.maximum(overlap[:3] @ latency.T, overlap[3:] @ transfer.T), time),
    ]
    use_overlap = errors[1] < errors[0]
    base, between, inside, per_byte_between, per_byte_inside = overlap if use_overlap else add
    worlds = sorted({int(value) for value in n})
    return LinkParameters(
        base_s=float(base),
        alpha_between_s=float(between),
        alpha_inside_s=float(inside),
        beta_between=1 / per_byte_between if per_byte_between > 0 else np.inf,
        beta_inside=1 / per_byte_inside if per_byte_inside > 0 else np.inf,
        overlap=use_overlap,
        model_fraction=max(min(errors), _LEAST_MODEL_FRACTION),
        basis=(
            f"ring model of {len(samples)} samples ({transport or 'transport unknown'}, "
            f"world sizes {', '.join(map(str, worlds))})"
        ),
    )


def _relative(predicted: FloatArray, measured: FloatArray) -> float:
    """Returns the root mean square of the relative error."""
    return float(np.sqrt(np.mean(np.square(predicted / measured - 1))))


def _nonnegative_fit(design: FloatArray, target: FloatArray) -> FloatArray:
    """Returns the non-negative coefficients of least relative error.

    Exact for the five columns of the ring model: the solution is the least-squares solution of one
    of the column subsets, so all are tried.
    """
    scaled = design / target[:, None]
    best = np.zeros(design.shape[1])
    best_error = np.inf
    columns = [c for c in range(design.shape[1]) if np.any(design[:, c] != 0)]
    subsets = chain.from_iterable(
        combinations(columns, size) for size in range(1, len(columns) + 1)
    )
    norms = np.linalg.norm(scaled, axis=0)
    for subset in map(list, subsets):
        matrix = scaled[:, subset] / norms[subset]
        solution = np.asarray(
            np.linalg.lstsq(matrix, np.ones(len(target)), rcond=None)[0], dtype=np.float64
        )
        if np.any(solution < 0):
            continue
        error = float(np.sum(np.square(matrix @ solution - 1)))
        if error < best_error * (1 - 1e-9):
            best_error = error
            best = np.zeros(design.shape[1])
            best[subset] = solution / norms[subset]
    return best


def _overlapping_fit(
    latency: FloatArray, transfer: FloatArray, time: FloatArray, start: FloatArray
) -> FloatArray:
    """Returns coefficients of `max(latency, transfer)`, each part fitted where it decides."""
    split = latency.shape[1]
    current = start
    for _ in range(20):
        slow = latency @ current[:split] > transfer @ current[split:]
        if slow.all() or not slow.any():
            break
        update = np.concatenate(
            [
                _nonnegative_fit(latency[slow], time[slow]),
                _nonnegative_fit(transfer[~slow], time[~slow]),
            ]
        )
        if np.allclose(update, current, rtol=1e-9, atol=0):
            break
        current = update
    return current
