"""The default allreduce model of plans: what was measured, and in what order it is looked for.

For worlds of several VMs (links between them) and of one VM (links inside) apart:

1. curves of the instance type itself, measured on the transport that the run will use; of several
   the one measured nearest to the asked world, of equally near ones the slowest;
2. curves of its family with the same GPU, scaled by the rated speeds;
3. the instance type's network figures (`AlphaBetaModel`): half of the rated speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srifty.allreduce.alpha_beta import AlphaBetaModel
from srifty.allreduce.atlas import Atlas, Origin, Sheet
from srifty.allreduce.base import Uncertainty
from srifty.allreduce.blend import Blend
from srifty.allreduce.table import Place, SampleTable
from srifty.core.allreduce import AllreduceSample, Collective, CurveKey
from srifty.core.hardware import InstanceType
from srifty.units import format_bytes, gbit_to_bytes_per_s

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_EFA = "efa"
# Times are tabled at these sizes, 4 B to 64 GiB, and interpolated in log size between them; beyond,
# they grow with the bytes.
_GRID_BYTES = np.exp2(np.arange(2, 37, dtype=np.float64))
_LARGEST = 3  # the plateau of bandwidth is read off this many octaves at the upper end
_LEAST_MODEL_FRACTION = 0.05
_FAMILY_FRACTION = 0.30
_BEYOND_FRACTION = 0.30
# Beyond the measured sizes: from 1 MiB on bandwidth decides, up to 64 KiB latency does.
_BANDWIDTH_SHOWS_BYTES = 2**20
_LATENCY_SHOWS_BYTES = 2**16
_LATENCY_PER_HOP_S = 10e-6  # the best of the public logs over fabrics; TCP takes more
_EFFICIENCY = 0.5  # of the rated speed, as TCP reaches on the measured AWS types


class _World(NamedTuple):
    kind: str
    world_size: int
    vms: int


class _Row(NamedTuple):
    """One world's times on the grid: where they come from, and how near that is."""

    log_time: FloatArray
    log_sd: FloatArray
    sheet: Sheet
    measured_bytes: tuple[float, float]
    nearness: Origin


class LearnedModel:
    """Answers from a fitted blend, and from network figures where nothing was measured."""

    def __init__(
        self, blend: Blend, *, efa: bool | None = None, library_version: str | None = None
    ) -> None:
        """Prepares a model.

        Args:
            blend: a fitted blend.
            efa: whether the run will use AWS's fabric: True takes only its samples where a type has
                some, False none of them; None: unknown.
            library_version: the NCCL version of the run, `2.18.5`; None: unknown.
        """
        self._blend = blend
        self._efa = efa
        self._version = library_version
        self._loners: frozenset[str] = frozenset()
        self._figures = AlphaBetaModel().fit(_inside_samples(blend.atlas))
        self._rows: dict[_World, _Row | None] = {}

    def without_relatives(self, names: Iterable[str]) -> LearnedModel:
        """Returns a model in which no relative stands in for the named instance types.

        It is where calibration by iteration times starts from: their factors are known for network
        figures, and observed iterations say more than a relative does.
        """
        model = LearnedModel(self._blend, efa=self._efa, library_version=self._version)
        model._loners = frozenset(names)
        return model

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`."""
        times = self._figures.time_s(instance_type, world_size, vms, size_bytes)
        for (n, v), here in _distinct(world_size, vms):
            row = self._row(instance_type, n, v)
            if n > 1 and row is not None:
                times[here] = np.exp(_at(size_bytes, row.log_time, slope=1.0))
        return times

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity`: the plateau of large messages."""
        capacity = self._figures.bus_capacity(instance_type, world_size, vms)
        for (n, v), here in _distinct(world_size, vms):
            row = self._row(instance_type, n, v)
            if n > 1 and row is not None:
                top = np.flatnonzero(row.measured_bytes[1] >= _GRID_BYTES)[-_LARGEST:]
                bus = 2 * (n - 1) / n * _GRID_BYTES[top] / np.exp(row.log_time[top])
                capacity[here] = np.median(bus) * self._blend.atlas.gains.get(row.sheet, 1.0)
        return capacity

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`; errors of different sizes are taken as one."""
        figures = self._figures.uncertainty(instance_type, world_size, vms, size_bytes)
        model = figures.model_fraction.copy()
        for (n, v), here in _distinct(world_size, vms):
            row = self._row(instance_type, n, v)
            if n > 1 and row is not None and len(size_bytes):
                share = np.exp(_at(size_bytes, row.log_time, slope=1.0))
                sd = _at(size_bytes, row.log_sd)
                model[here] = max(float(np.average(sd, weights=share)), _LEAST_MODEL_FRACTION)
        return Uncertainty(np.full(len(world_size), self._blend.atlas.allocation_fraction), model)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:
        """See `AllreduceModel.assumptions`."""
        return tuple(
            sentence
            for kind in dict.fromkeys(instance_types)
            for between in ((True, False) if kind.gpus > 1 else (True,))
            for sentence in self.basis(kind, between=between)
        )

    def warnings(
        self, instance_type: InstanceType, world_size: int, vms: int, size_bytes: FloatArray
    ) -> tuple[str, ...]:
        """See `AllreduceModel.warnings`."""
        row = self._row(instance_type, world_size, vms)
        if row is None:
            return ()
        points = self._blend.atlas.sheets[row.sheet]
        sentences: list[str] = []
        measured_on = self._blend.atlas.gpus.get(row.sheet.curve.instance_type, "")
        if measured_on.casefold() == "cpu" and instance_type.gpu.casefold() != "cpu":
            sentences.append(
                f"Allreduce on {instance_type.name}: measured among processes on CPUs "
                f"({row.sheet.curve.library_version or 'library unknown'}), not on its GPUs."
            )
        low, high = row.measured_bytes
        beyond = (size_bytes < low / 2) | (size_bytes > high * 2)
        if beyond.any():
            sentences.append(
                f"Allreduce on {instance_type.name}: transfers of {_span(size_bytes[beyond])} lie "
                f"outside what was measured ({_span([low, high])}), so their times are "
                "extrapolated; srifty probe measures them."
            )
        if row.nearness is Origin.OUTSIDE:
            worlds = ", ".join(f"{n} on {v}" for n, v in points.worlds())
            sentences.append(
                f"Allreduce on {instance_type.name}: {world_size} GPUs on {vms} VMs lie outside "
                f"what was measured on {row.sheet.curve.instance_type} (GPUs on VMs: {worlds})."
            )
        return tuple(sentences)

    def _row(self, kind: InstanceType, world_size: int, vms: int) -> _Row | None:
        """Returns the table of one world; None where only the network figures know."""
        world = _World(kind.name, world_size, vms)
        if world not in self._rows:
            self._rows[world] = self._tabled(kind, world_size, vms) if world_size > 1 else None
        return self._rows[world]

    def _tabled(self, kind: InstanceType, world_size: int, vms: int) -> _Row | None:
        """Returns, size by size, what the nearest of the curves that measured the size says.

        Of equally near ones the slowest counts; sizes that none measured are answered by all.
        """
        curves = self._curves(kind, between=vms > 1)
        if not curves:
            return None
        far = np.array([self._blend.atlas.distance(s, world_size, vms) for s in curves])
        covered = np.stack([_covered(self._span(s, factor)) for s, factor in curves.items()])
        covered[:, ~covered.any(axis=0)] = True
        least = np.where(covered, far[:, None], np.inf).min(axis=0)
        asked = covered & (far[:, None] <= least + 1e-9)
        return _slowest(
            [
                (self._answer(kind, world_size, vms, sheet, factor), sizes)
                for (sheet, factor), sizes in zip(curves.items(), asked, strict=True)
                if sizes.any()
            ]
        )

    def _span(self, sheet: Sheet, size_factor: float) -> tuple[float, float]:
        """Returns the smallest and largest measured size of a curve, as the asked type has them."""
        measured = self._blend.atlas.sheets[sheet].size_bytes / size_factor
        return float(measured.min()), float(measured.max())

    def _answer(
        self, kind: InstanceType, world_size: int, vms: int, sheet: Sheet, size_factor: float
    ) -> _Row:
        place = Place(kind.cloud, "", "", kind.gpu, "")
        answer = self._blend.predict(
            SampleTable.ask(sheet.curve, place, world_size, vms, _GRID_BYTES * size_factor)
        )
        low, high = self._span(sheet, size_factor)
        log_sd = answer.log_sd
        if sheet.curve.instance_type != kind.name:
            log_sd = np.full(len(_GRID_BYTES), _FAMILY_FRACTION)
        log_time = _extended(
            answer.log_time,
            low,
            high,
            least_s=_LATENCY_PER_HOP_S * 2 * (world_size - 1),
            bus_bytes_per_s=_EFFICIENCY * gbit_to_bytes_per_s(kind.rated_gbit_per_s)
            if vms > 1
            else np.inf,
            bus_factor=Collective.ALL_REDUCE.bus_factor(world_size),
        )
        if vms > 1 and kind.burst_gbit_per_s is not None:
            # A probe of minutes sees the burst of an "up to" type; jobs outlast it.
            bus_bytes = Collective.ALL_REDUCE.bus_factor(world_size) * _GRID_BYTES
            log_time = np.maximum(
                log_time, np.log(bus_bytes / gbit_to_bytes_per_s(kind.rated_gbit_per_s))
            )
        return _Row(
            log_time,
            np.where(_covered((low, high)), log_sd, np.maximum(log_sd, _BEYOND_FRACTION)),
            sheet,
            (low, high),
            self._blend.atlas.basis(sheet.curve, world_size, vms).origin,
        )

    def _curves(self, kind: InstanceType, *, between: bool) -> dict[Sheet, float]:
        """Returns the curves that the run may see, own before relatives', with size factors."""
        own = [
            sheet
            for sheet in self._blend.atlas.sheets
            if sheet.between == between and sheet.curve.instance_type == kind.name
        ]
        relatives = self._blend.atlas.relatives(kind.name, between=between)
        if kind.name in self._loners:
            relatives = []
        return self._allowed(dict.fromkeys(own, 1.0), between=between) or self._allowed(
            dict(relatives), between=between
        )

    def _allowed(self, found: dict[Sheet, float], *, between: bool) -> dict[Sheet, float]:
        """Returns the curves of the run's transport, and of its library version if there are."""
        if between and self._efa is not None:
            fabric = {s: f for s, f in found.items() if s.curve.transport == _EFA}
            others = {s: f for s, f in found.items() if s.curve.transport != _EFA}
            found = (fabric or others) if self._efa else others
        same = {s: f for s, f in found.items() if s.curve.library_version == self._version}
        return same or found

    def basis(self, kind: InstanceType, *, between: bool) -> list[str]:
        """Returns what the times between VMs of a type, or inside one, rest on; full sentences."""
        curves = self._curves(kind, between=between)
        where = "on" if between else "inside"
        if not curves:
            if not between:
                return [self._figures.inside(kind)]
            return list(self._figures.assumptions([kind]))
        first = next(iter(curves))
        points = self._blend.atlas.sheets[first]
        worlds = ", ".join(str(n) for n in sorted({n for n, _ in points.worlds()}))
        transport = first.curve.transport or "transport unknown"
        about = f"{len(points)} points ({transport}; world sizes {worlds})"
        others = len(curves) - 1
        more = f" and {others} more curve{'s' if others > 1 else ''}" if others else ""
        if first.curve.instance_type == kind.name:
            sentences = [f"Allreduce {where} {kind.name}: measured at {about}{more}."]
        else:
            scaled = f", scaled by the rated speeds (±{_FAMILY_FRACTION:.0%})" if between else ""
            sentences = [
                f"Allreduce {where} {kind.name}: not measured; as {where} "
                f"{first.curve.instance_type}, {about}{more}{scaled}."
            ]
        return sentences + self._mixtures(kind, [sheet.curve for sheet in curves])

    def _mixtures(self, kind: InstanceType, curves: Sequence[CurveKey]) -> list[str]:
        """Returns what to say of curves of several library versions, transports or settings."""
        versions = sorted({curve.library_version for curve in curves})
        words = " and ".join(_named(version) or "an unknown version" for version in versions)
        if self._version is not None and self._version not in versions:
            return [
                f"Allreduce on {kind.name} was measured with {words}; the run will use "
                f"{_named(self._version)}."
            ]
        sentences: list[str] = []
        if len(versions) > 1:
            sentences.append(
                f"Allreduce on {kind.name} was measured with {words}: of equally near curves the "
                "slowest counts; name the run's version with network.nccl (predict: --nccl)."
            )
        transports = sorted({curve.transport or "unknown" for curve in curves})
        if len(transports) > 1:
            sentences.append(
                f"Allreduce on {kind.name} was measured over {' and '.join(transports)}: each "
                "world is answered by the curves measured nearest to it, of equally near ones by "
                "the slowest."
            )
        return sentences


def _slowest(rows: Sequence[tuple[_Row, NDArray[np.bool_]]]) -> _Row:
    """Returns, size by size, the slowest of the rows that are asked there (the marked sizes)."""
    asked = np.stack([sizes for _, sizes in rows])
    times = np.where(asked, np.stack([row.log_time for row, _ in rows]), -np.inf)
    slowest = times.argmax(axis=0)
    most = rows[int(asked.sum(axis=1).argmax())][0]
    return most._replace(
        log_time=times.max(axis=0),
        log_sd=np.stack([row.log_sd for row, _ in rows])[slowest, np.arange(len(slowest))],
        measured_bytes=(
            min(row.measured_bytes[0] for row, _ in rows),
            max(row.measured_bytes[1] for row, _ in rows),
        ),
        nearness=min(row.nearness for row, _ in rows),
    )


def _covered(measured_bytes: tuple[float, float]) -> NDArray[np.bool_]:
    """Marks the grid's sizes within a factor of two of what was measured."""
    low, high = measured_bytes
    return (low / 2 <= _GRID_BYTES) & (high * 2 >= _GRID_BYTES)


def _extended(
    log_time: FloatArray,
    low: float,
    high: float,
    *,
    least_s: float,
    bus_bytes_per_s: float,
    bus_factor: float,
) -> FloatArray:
    """Returns times on the grid that keep to physics beyond the measured sizes.

    Above them time grows with the bytes, at the measured pace where that is one of bandwidth, else
    at what the network is rated for; below them it stays where latency shows, else it falls with
    the bytes down to a usual latency.
    """
    time_s = np.exp(log_time)
    inside = np.flatnonzero((low / 2 <= _GRID_BYTES) & (high * 2 >= _GRID_BYTES))
    first, last = inside[0], inside[-1]
    above = _GRID_BYTES[last] < _GRID_BYTES
    if high >= _BANDWIDTH_SHOWS_BYTES:
        time_s[above] = time_s[last] * _GRID_BYTES[above] / _GRID_BYTES[last]
    else:
        extra = bus_factor * (_GRID_BYTES[above] - _GRID_BYTES[last])
        time_s[above] = time_s[last] + extra / bus_bytes_per_s
    below = _GRID_BYTES[first] > _GRID_BYTES
    if low <= _LATENCY_SHOWS_BYTES:
        time_s[below] = time_s[first]
    else:
        falling = time_s[first] * _GRID_BYTES[below] / _GRID_BYTES[first]
        time_s[below] = np.minimum(np.maximum(falling, least_s), time_s[first])
    return np.log(time_s)


def _named(version: str) -> str:
    return f"NCCL {version}" if version[:1].isdigit() else version


def _span(sizes: FloatArray | Sequence[float]) -> str:
    low, high = float(np.min(sizes)), float(np.max(sizes))
    return format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def _at(size_bytes: FloatArray, tabled: FloatArray, *, slope: float = 0.0) -> FloatArray:
    """Returns tabled values at other sizes, linear in log size, with `slope` beyond the grid."""
    beyond = np.maximum(np.log(size_bytes / _GRID_BYTES[-1]), 0.0)
    return np.interp(np.log(size_bytes), np.log(_GRID_BYTES), tabled) + slope * beyond


def _distinct(
    world_size: IntArray, vms: IntArray
) -> list[tuple[tuple[int, int], NDArray[np.intp]]]:
    """Returns the distinct worlds with the rows where they occur."""
    worlds, group = np.unique(np.stack([world_size, vms], axis=1), axis=0, return_inverse=True)
    return [
        ((int(n), int(v)), np.flatnonzero(group.reshape(-1) == number))
        for number, (n, v) in enumerate(worlds)
    ]


def _inside_samples(atlas: Atlas) -> list[AllreduceSample]:
    """Returns the points inside VMs as samples: what the network figures do not tell."""
    return [
        AllreduceSample(
            sheet.curve.instance_type,
            vms=1,
            world_size=int(n),
            size_bytes=int(size),
            time_s=float(np.exp(log_time)),
            transport=sheet.curve.transport,
            gpu=atlas.gpus.get(sheet.curve.instance_type, ""),
        )
        for sheet, points in atlas.sheets.items()
        if not sheet.between
        for n, size, log_time in zip(
            points.world_size, points.size_bytes, points.log_time, strict=True
        )
    ]
