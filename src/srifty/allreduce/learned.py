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

from srifty.allreduce.alpha_beta import BETWEEN_EFFICIENCY, AlphaBetaModel
from srifty.allreduce.atlas import Atlas, Origin, Sheet
from srifty.allreduce.base import Uncertainty
from srifty.allreduce.blend import Blend
from srifty.allreduce.size_grid import (
    GRID_BYTES,
    between_sizes,
    covers,
    extended,
    last_marked,
    tabled_at,
)
from srifty.allreduce.table import LARGE_BYTES, Place, SampleTable
from srifty.core.allreduce import AllreduceSample, Collective, CurveKey
from srifty.core.hardware import InstanceType
from srifty.units import format_bytes, gbit_to_bytes_per_s

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_EFA = "efa"
_LARGEST = 3  # the plateau of bandwidth is read off this many octaves at the upper end
_MARGIN_STEPS = 2  # octaves between two sizes of which the time for more bytes is told
_LEAST_MODEL_FRACTION = 0.05
_FAMILY_FRACTION = 0.30
_BEYOND_FRACTION = 0.30
_ROUNDING = 1 - 1e-9  # lower bounds stay below what they bound
_LATENCY_PER_HOP_S = 10e-6  # the best of the public logs over fabrics; TCP takes more


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
    capacity: float = np.inf


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
        self._without_relatives: frozenset[str] = frozenset()
        self._figures = AlphaBetaModel().fit(_inside_samples(blend.atlas))
        self._rows: dict[_World, _Row | None] = {}

    def without_relatives(self, names: Iterable[str]) -> LearnedModel:
        """Returns a model in which no relative stands in for the named instance types.

        It is where calibration by iteration times starts from: their factors are known for network
        figures, and observed iterations say more than a relative does.
        """
        model = LearnedModel(self._blend, efa=self._efa, library_version=self._version)
        model._without_relatives = frozenset(names)
        return model

    def time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> FloatArray:
        """See `AllreduceModel.time_s`: the mean over allocations; curves show their median."""
        times = self._figures.time_s(instance_type, world_size, vms, size_bytes)
        here, rows = self._known(instance_type, world_size, vms)
        if rows:
            log_time = np.stack([row.log_time for row in rows])
            median_s = np.exp(tabled_at(size_bytes, log_time, slope=1.0))
            times[here] = self._mean_over_median(vms[here])[:, None] * median_s
        return times

    def least_time_s(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        *,
        most_per_vm: int,
    ) -> FloatArray:
        """See `FlooredAllreduce.least_time_s`.

        Worlds on one VM at least may be on one or on several. Of several curves any may be the one
        that answers, so the least of them counts; but where one answers, those that measured all of
        its worlds are as near, and the slowest counts. Everything that is made of a curve's answers
        (their extension, the interpolation in size) grows with them.
        """
        several = np.maximum(np.maximum(vms, 2), -(-world_size // most_per_vm))
        least = self._least_s(
            instance_type, np.maximum(world_size, several), several, size_bytes, most_per_vm
        )
        alone = np.flatnonzero((vms == 1) & (world_size <= most_per_vm))
        if alone.size:
            ones = np.ones_like(alone)
            inside = self._least_s(instance_type, world_size[alone], ones, size_bytes, most_per_vm)
            least[alone] = np.minimum(least[alone], inside)
        return np.where(world_size[:, None] > 1, least, 0.0)

    def least_spread(self, instance_type: InstanceType) -> float:
        """See `FlooredAllreduce.least_spread`."""
        del instance_type
        return float(np.hypot(self._blend.atlas.allocation_fraction, _LEAST_MODEL_FRACTION))

    def _least_s(
        self,
        kind: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
        most_per_vm: int,
    ) -> FloatArray:
        """Returns (R, K) least seconds, of worlds on one VM alone or on several alone."""
        between = bool(vms.max(initial=1) > 1)
        curves = self._curves(kind, between=between)
        if not curves:
            return self._figures.least_time_s(
                kind, world_size, vms, size_bytes, most_per_vm=most_per_vm
            )
        covered = np.stack([covers(self._span(s, factor)) for s, factor in curves.items()])
        ends = [end for inside in covered for end in (inside.argmax(), last_marked(inside))]
        covered[:, ~covered.any(axis=0)] = True
        below, _ = between_sizes(size_bytes)
        # Of the grid, only what the asked sizes lie between, and what extensions start from.
        columns = np.unique(np.concatenate([below, below + 1, np.array(ends, dtype=np.int64)]))
        grid, covered = GRID_BYTES[columns], covered[:, columns]
        each = np.full((len(curves), len(world_size), len(grid)), -np.inf)
        for number, (sheet, factor) in enumerate(curves.items()):
            log_time = self._blend.least_log_time(
                sheet, world_size, vms, grid * factor, most_per_vm
            )
            if log_time is None:
                return np.zeros((len(world_size), len(size_bytes)))
            sizes = covered[number]
            log_time = self._kept_to_physics(kind, world_size, vms, sheet, factor, log_time, grid)
            each[number][:, sizes] = log_time[:, sizes]
        worlds = [set(self._blend.atlas.sheets[sheet].worlds()) for sheet in curves]
        least = np.full((len(world_size), len(GRID_BYTES)), np.inf)
        for number, own in enumerate(worlds):
            as_near = [other for other, theirs in enumerate(worlds) if theirs >= own]
            slowest = each[as_near].max(axis=0)
            sizes = covered[number]
            at = columns[sizes]
            least[:, at] = np.minimum(least[:, at], slowest[:, sizes])
        median_s = np.exp(tabled_at(size_bytes, least, slope=1.0))
        return self._mean_over_median(vms)[:, None] * median_s * _ROUNDING

    def bus_capacity(
        self, instance_type: InstanceType, world_size: IntArray, vms: IntArray
    ) -> FloatArray:
        """See `AllreduceModel.bus_capacity` and `_with_capacity`."""
        capacity = self._figures.bus_capacity(instance_type, world_size, vms)
        here, rows = self._known(instance_type, world_size, vms)
        capacity[here] = [row.capacity for row in rows] / self._mean_over_median(vms[here])
        return capacity

    def _mean_over_median(self, vms: IntArray) -> FloatArray:
        """Returns (R,) the mean of allocations' times over their median, which curves show."""
        return 1.0 + self._blend.atlas.slow_vms * np.log(vms)

    def uncertainty(
        self,
        instance_type: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        size_bytes: FloatArray,
    ) -> Uncertainty:
        """See `AllreduceModel.uncertainty`; errors of different sizes are taken as one."""
        model = self._figures.uncertainty(instance_type, world_size, vms, size_bytes).model_fraction
        here, rows = self._known(instance_type, world_size, vms)
        if rows and len(size_bytes):
            log_time = np.stack([row.log_time for row in rows])
            time_s = np.exp(tabled_at(size_bytes, log_time, slope=1.0))
            log_sd = tabled_at(size_bytes, np.stack([row.log_sd for row in rows]))
            mean = np.sum(time_s * log_sd, axis=1) / np.sum(time_s, axis=1)
            model[here] = np.maximum(mean, _LEAST_MODEL_FRACTION)
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

    def _known(
        self, kind: InstanceType, world_size: IntArray, vms: IntArray
    ) -> tuple[NDArray[np.intp], list[_Row]]:
        """Returns which of the asked worlds measurements answer for, and the tables of those."""
        worlds = list(zip(world_size.tolist(), vms.tolist(), strict=True))
        self._table(kind, {world for world in worlds if world[0] > 1})
        rows = [self._rows.get(_World(kind.name, n, v)) for n, v in worlds]
        here = np.flatnonzero(np.array([row is not None for row in rows], dtype=np.bool_))
        return here, [row for row in rows if row is not None]

    def _row(self, kind: InstanceType, world_size: int, vms: int) -> _Row | None:
        """Returns the table of one world; None where only the network figures know."""
        _, rows = self._known(kind, np.array([world_size]), np.array([vms]))
        return rows[0] if rows else None

    def _table(self, kind: InstanceType, worlds: Iterable[tuple[int, int]]) -> None:
        """Tables worlds that were not asked before; each curve is asked once for all of them.

        Size by size the nearest of the curves that measured the size answers, of equally near ones
        the slowest; sizes that none measured are answered by all.
        """
        missing = [(n, v) for n, v in sorted(worlds) if _World(kind.name, n, v) not in self._rows]
        for between in (False, True):
            asked = [world for world in missing if (world[1] > 1) == between]
            curves = self._curves(kind, between=between) if asked else {}
            if not curves:
                self._rows |= {_World(kind.name, n, v): None for n, v in asked}
                continue
            covered = np.stack([covers(self._span(s, factor)) for s, factor in curves.items()])
            covered[:, ~covered.any(axis=0)] = True
            parts: dict[tuple[int, int], list[tuple[_Row, BoolArray]]] = {w: [] for w in asked}
            distance = np.array(
                [[self._blend.atlas.distance(sheet, n, v) for n, v in asked] for sheet in curves]
            )
            # (curves, worlds, sizes): which curve answers what.
            far = np.where(covered[:, None, :], distance[:, :, None], np.inf)
            answers = far <= far.min(axis=0) + 1e-9
            for (sheet, factor), marked in zip(curves.items(), answers, strict=True):
                chosen = [(w, sizes) for w, sizes in zip(asked, marked, strict=True) if sizes.any()]
                rows = self._answers(kind, [world for world, _ in chosen], sheet, factor)
                for (world, sizes), row in zip(chosen, rows, strict=True):
                    parts[world].append((row, sizes))
            for (n, v), found in parts.items():
                row = self._with_capacity(_slowest(found), kind, n, between=v > 1)
                self._rows[_World(kind.name, n, v)] = row

    def _with_capacity(
        self, row: _Row, kind: InstanceType, world_size: int, *, between: bool
    ) -> _Row:
        """Returns the row with the bandwidth that transfers side by side share.

        That is the bandwidth of the largest messages. Where even these still wait for latencies,
        which transfers side by side wait for together, it is what more bytes take at best, as far
        as the link is rated for it. (gloo sends large messages in parts, each of which waits: so
        this shows between middling sizes rather than between the largest.)
        """
        large = np.flatnonzero(row.measured_bytes[1] >= GRID_BYTES)
        bus_bytes = Collective.ALL_REDUCE.bus_factor(world_size) * GRID_BYTES[large]
        time_s = np.exp(row.log_time[large])
        plateau = float(np.median((bus_bytes / time_s)[-_LARGEST:]))
        wide = np.flatnonzero(GRID_BYTES[large] >= LARGE_BYTES)
        if between and len(wide) > _MARGIN_STEPS:
            more_bytes = bus_bytes[wide][_MARGIN_STEPS:] - bus_bytes[wide][:-_MARGIN_STEPS]
            more_s = time_s[wide][_MARGIN_STEPS:] - time_s[wide][:-_MARGIN_STEPS]
            marginal = (more_bytes[more_s > 0] / more_s[more_s > 0]).max(initial=0.0)
            rated = gbit_to_bytes_per_s(kind.rated_gbit_per_s)
            plateau = max(plateau, min(float(marginal), rated))
        return row._replace(capacity=plateau * self._blend.atlas.gains.get(row.sheet, 1.0))

    def _span(self, sheet: Sheet, size_factor: float) -> tuple[float, float]:
        """Returns the smallest and largest measured size of a curve, as the asked type has them."""
        measured = self._blend.atlas.sheets[sheet].size_bytes / size_factor
        return float(measured.min()), float(measured.max())

    def _answers(
        self,
        kind: InstanceType,
        worlds: Sequence[tuple[int, int]],
        sheet: Sheet,
        size_factor: float,
    ) -> list[_Row]:
        """Returns what one curve says of each world."""
        if not worlds:
            return []
        sizes = len(GRID_BYTES)
        n, v = np.repeat(np.array(worlds, dtype=np.int64), sizes, axis=0).T
        place = Place(kind.cloud, "", "", kind.gpu, "")
        asked_bytes = np.tile(GRID_BYTES * size_factor, len(worlds))
        answer = self._blend.predict(SampleTable.ask(sheet.curve, place, n, v, asked_bytes))
        log_time = answer.log_time.reshape(-1, sizes)
        log_sd = answer.log_sd.reshape(-1, sizes)
        ranks, machines = np.array(worlds, dtype=np.int64).T
        log_time = self._kept_to_physics(kind, ranks, machines, sheet, size_factor, log_time)
        low, high = span = self._span(sheet, size_factor)
        if sheet.curve.instance_type != kind.name:
            log_sd = np.full_like(log_sd, _FAMILY_FRACTION)
        log_sd = np.where(covers((low, high)), log_sd, np.maximum(log_sd, _BEYOND_FRACTION))
        origins = [self._blend.atlas.basis(sheet.curve, n, v).origin for n, v in worlds]
        return [
            _Row(log_time[i], log_sd[i], sheet, span, origin) for i, origin in enumerate(origins)
        ]

    def _kept_to_physics(
        self,
        kind: InstanceType,
        world_size: IntArray,
        vms: IntArray,
        sheet: Sheet,
        size_factor: float,
        log_time: FloatArray,
        grid: FloatArray = GRID_BYTES,
    ) -> FloatArray:
        """Returns (R, G) a curve's answers on the grid, extended beyond what was measured.

        The worlds are on one VM alone, or on several alone.
        """
        low, high = self._span(sheet, size_factor)
        rated = gbit_to_bytes_per_s(kind.rated_gbit_per_s)
        between = bool(vms.max(initial=1) > 1)
        hops = 2 * (world_size - 1).astype(np.float64)
        bus_factor = hops / world_size
        log_time = extended(
            log_time,
            grid,
            (low, high),
            least_s=_LATENCY_PER_HOP_S * hops,
            bus_bytes_per_s=BETWEEN_EFFICIENCY * rated if between else np.inf,
            bus_factor=bus_factor,
        )
        if between and kind.burst_gbit_per_s is not None:
            # A probe of minutes sees the burst of an "up to" type; jobs outlast it.
            log_time = np.maximum(log_time, np.log(bus_factor[:, None] * grid / rated))
        return log_time

    def _curves(self, kind: InstanceType, *, between: bool) -> dict[Sheet, float]:
        """Returns the curves that the run may see, own before relatives', with size factors."""
        own = [
            sheet
            for sheet in self._blend.atlas.sheets
            if sheet.between == between and sheet.curve.instance_type == kind.name
        ]
        relatives = self._blend.atlas.relatives(kind.name, between=between)
        if kind.name in self._without_relatives:
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


def _slowest(rows: Sequence[tuple[_Row, BoolArray]]) -> _Row:
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


def _named(version: str) -> str:
    return f"NCCL {version}" if version[:1].isdigit() else version


def _span(sizes: FloatArray | Sequence[float]) -> str:
    low, high = float(np.min(sizes)), float(np.max(sizes))
    return format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


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
