"""The tree of one place: bounds of its nodes, and their children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from srifty.core.job import Job, Objective
from srifty.planner.search.nodes import Nodes
from srifty.planner.search.options import Options
from srifty.planner.search.supply_bound import SupplyBound
from srifty.planner.search.time_bound import TableKey, TimeBound
from srifty.planner.space import SpaceRule, Splits
from srifty.planner.supply import TypeSupply
from srifty.simulator.bounds import SLACK, IterationBounds

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_S_PER_HOUR = 3600.0
# Groups that a configuration may have before the search gives up its proof.
_MOST_DEPTH = 12
# Children that are looked at together.
_BLOCK = 100_000
# Limits are compared with this much tolerance, so that rounding prunes nothing that just fits.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Place:
    """The search tree of one place.

    Attributes:
        job: what is trained.
        supplies: what can be had.
        options: what single types can contribute.
        supply_bound: what the rest of a global batch costs at least.
        time_bound: what iterations take at least.
        sure: whether the objective counts at the asked confidence, not in the mean.
    """

    job: Job
    supplies: Sequence[TypeSupply]
    options: Options
    supply_bound: SupplyBound
    time_bound: TimeBound
    sure: bool = False

    @classmethod
    def of(
        cls,
        job: Job,
        supplies: Sequence[TypeSupply],
        rule: SpaceRule,
        bounds: IterationBounds,
        known: dict[TableKey, FloatArray],
    ) -> Self | None:
        """Returns the tree of a place; None where it is too large for a search.

        Args:
            job: what is trained.
            supplies: what can be had.
            rule: what a split may look like.
            bounds: what no iteration undercuts.
            known: see `TimeBound.of`.
        """
        options = Options.of(supplies, job.global_batch, rule, bounds)
        if options is None:
            return None
        return cls(
            job,
            supplies,
            options,
            SupplyBound.of(supplies, options),
            TimeBound.of(supplies, options, bounds, known),
        )

    def root(self) -> Nodes:
        """Returns the node from which all configurations descend.

        Its bound matters where time is over before its children are made. Iterations last as long
        as each worker needs, so a sample costs no less than it does where it is cheapest; and the
        slowest worker is no faster than the last option at which all workers together suffice.
        """
        options, job = self.options, self.job
        root = Nodes.root(job.global_batch, min(options.types, _MOST_DEPTH))
        if job.objective is Objective.COST:
            per_worker = (options.usd_per_hour[:, 1] / options.gpus)[options.kind]
            usd = float((per_worker * options.compute_s / options.batch).min(initial=np.inf))
            bound = job.iterations * job.global_batch * usd * SLACK / _S_PER_HOUR
        else:
            enough = self.supply_bound.workers.samples.sum(axis=1)[:-1] >= job.global_batch
            least_s = float(options.compute_s[enough].min(initial=np.inf))
            bound = job.overheads.launch_s + job.iterations * least_s * SLACK
        return replace(root, bound=np.array([bound if np.isfinite(bound) else 0.0]))

    def whole(self, parents: Nodes, best: float) -> Iterator[tuple[int, Nodes]]:
        """Yields the whole configurations that one more group makes of nodes, block by block.

        Each block comes with how many were looked at for it.

        Args:
            parents: the nodes.
            best: objective of the best configuration so far; what cannot beat it is left out.
        """
        yield from self._children(parents, best, whole=True)

    def partial(self, parents: Nodes, best: float) -> Iterator[tuple[int, Nodes]]:
        """Yields the partial configurations that one more group makes of nodes."""
        if self.options.types > 1:
            yield from self._children(parents, best, whole=False)

    def splits(self, nodes: Nodes) -> Splits:
        """Returns the splits of whole configurations."""
        shape = (len(nodes), self.options.types)
        workers, samples = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        left = np.full(len(nodes), self.job.global_batch)
        open_kind = np.zeros(len(nodes), dtype=np.int64)
        for column in range(int(nodes.depth.max(initial=0))):
            rows = np.flatnonzero(nodes.depth > column)
            option, count = nodes.option[rows, column], nodes.workers[rows, column]
            kind = self.options.kind[option]
            workers[rows, kind] = count
            is_open = self.options.is_open[option]
            taken = np.where(is_open, 0, count * self.options.batch[option])
            samples[rows, kind] = taken
            left[rows] -= taken
            open_kind[rows[is_open]] = kind[is_open]
        at = np.flatnonzero(nodes.has_open)
        samples[at, open_kind[at]] = left[at]
        return Splits(workers, samples)

    def _children(self, parents: Nodes, best: float, *, whole: bool) -> Iterator[tuple[int, Nodes]]:
        row, option, low, high = self._ranges(parents, whole=whole)
        count = np.maximum(high - low + 1, 0)
        ends = np.cumsum(count)
        start = 0
        while start < len(row):
            done = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, done + _BLOCK, side="right")), start + 1)
            part = slice(start, stop)
            start = stop
            own = count[part]
            if not own.any():
                continue
            pair = np.repeat(np.arange(len(own)), own)
            workers = low[part][pair] + np.arange(len(pair)) - (np.cumsum(own) - own)[pair]
            children = self._extended(parents, row[part][pair], option[part][pair], workers)
            if whole:
                children = self._bounded(children.take(children.is_whole), best)
            else:
                children = children.take(
                    (children.most_left > 0) & (children.depth < self.options.types)
                )
                children = self._bounded_by_type(self._bounded(children, best), best)
            yield len(pair), children

    def _ranges(
        self, parents: Nodes, *, whole: bool
    ) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Returns (P,) pairs of a parent and an option, with the least and most workers of it."""
        options = self.options
        last = _last_option(parents)
        allowed = np.arange(len(options))[None, :] > last[:, None]
        allowed &= (parents.used[:, None] >> options.kind[None, :]) & 1 == 0
        allowed &= ~(parents.has_open[:, None] & options.is_open[None, :])
        row, option = np.nonzero(allowed)
        batch, is_open = options.batch[option], options.is_open[option]
        least_left, most_left = parents.least_left[row], parents.most_left[row]
        fewer = np.maximum(batch - 1, 1)
        # Open workers take more than `batch − 1` samples each; `w` of them take at least
        # `w (batch − 1) + 1` and at most `w batch − 1`.
        high = np.where(is_open, (most_left - 1) // fewer, most_left // batch)
        high = np.minimum(high, options.most_workers[option])
        low = np.where(is_open, 2, 1)
        if whole:
            needed = np.where(is_open, least_left // batch + 1, -(-least_left // batch))
            low = np.maximum(low, needed)
        else:
            high = np.minimum(high, self._affordable(parents, row, option))
        return row, option, low, high

    def _affordable(self, parents: Nodes, row: IntArray, option: IntArray) -> IntArray:
        """Returns (P,) how many workers of an option can be paid for at most.

        The relaxed price is convex in the samples, so what `w` workers save elsewhere is at most
        their samples times what the last sample costs there.
        """
        options = self.options
        per_worker = (options.usd_per_hour[:, 1] / options.gpus)[options.kind[option]]
        extra = per_worker - options.batch[option] * parents.usd_per_sample[row]
        slack = parents.slack_usd_per_hour[row] * _ROUNDING
        with np.errstate(divide="ignore", invalid="ignore"):
            workers = np.where(extra > 0, slack / extra, np.inf)
        return np.minimum(np.nan_to_num(workers, nan=0.0), 1e9).astype(np.int64)

    def _extended(
        self, parents: Nodes, row: IntArray, option: IntArray, workers: IntArray
    ) -> Nodes:
        """Returns parents with one more group each; bounds are still the parents'.

        What the group's samples save elsewhere is at most what the last sample costs there.
        """
        options = self.options
        kind, batch, is_open = options.kind[option], options.batch[option], options.is_open[option]
        least = np.where(is_open, workers * (batch - 1) + 1, workers * batch)
        most = np.where(is_open, workers * batch - 1, workers * batch)
        gpus = options.gpus[kind]
        slowest_s = (
            options.compute_s[option] * options.straggling[kind, np.where(is_open, 1, workers)]
        )
        loaded_s = options.input_s[kind] * np.minimum(workers, gpus) * (batch - is_open)
        price = options.usd_per_hour[kind, workers]
        at = np.arange(len(row))
        parts = parents.take(row)
        parts.option[at, parts.depth] = option
        parts.workers[at, parts.depth] = workers
        return replace(
            parts,
            depth=parts.depth + np.int32(1),
            least_left=parts.least_left - most,
            most_left=parts.most_left - least,
            used=parts.used | (np.int64(1) << kind),
            has_open=parts.has_open | is_open,
            usd_per_hour=parts.usd_per_hour + price,
            least_usd_per_hour=parts.least_usd_per_hour
            + np.maximum(price - parts.usd_per_sample * most, 0.0),
            world_size=parts.world_size + workers,
            vms=parts.vms + -(-workers // gpus),
            compute_s=np.maximum(parts.compute_s, slowest_s),
            optimizer_s=np.maximum(parts.optimizer_s, options.optimizer_s[kind]),
            input_s=np.maximum(parts.input_s, loaded_s),
        )

    def _bounded(self, nodes: Nodes, best: float) -> Nodes:
        """Returns the nodes that may still beat `best`, with their bounds: cheap ones first."""
        nodes = nodes.take(np.isfinite(nodes.usd_per_hour))
        nodes = self._judged(nodes, np.zeros(len(nodes), dtype=np.int64), best)
        nodes, others = self._supplied(nodes)
        nodes = self._judged(nodes, others, best)
        several = np.flatnonzero(nodes.depth > 1)
        if not several.size:
            return nodes
        compute_s = nodes.compute_s.copy()
        compute_s[several] = np.maximum(compute_s[several], self._slowest(nodes.take(several)))
        nodes, others = self._supplied(replace(nodes, compute_s=compute_s))
        return self._judged(nodes, others, best)

    def _bounded_by_type(self, nodes: Nodes, best: float) -> Nodes:
        """Returns the partial configurations that may still beat `best`, by the types to come.

        Of the types that a completion adds, one is the last in `exchange_order`. If it is `u`, no
        later one is bought, and the exchange is no faster than `u`'s: the least over all `u` bounds
        every completion.
        """
        types = self.options.types
        if not len(nodes) or not self.time_bound.exchange_s.any():
            return nodes
        row = np.repeat(np.arange(len(nodes)), types)
        kind = np.tile(np.arange(types), len(nodes))
        can_come = (nodes.used[row] >> kind) & 1 == 0
        can_come &= self.supply_bound.largest_batch[_last_option(nodes)[row] + 1, kind] > 0
        row, kind = row[can_come], kind[can_come]
        pairs = nodes.take(row)
        blocked = pairs.used | self.time_bound.later_types[kind]
        last, wanted = _last_option(pairs), np.maximum(pairs.least_left, 0)
        rest_usd, _ = self.supply_bound.least_usd_per_hour(last, blocked, wanted)
        others = np.maximum(self.supply_bound.least_workers(last, blocked, wanted), 1)
        bound, most_usd = self._judge(
            replace(pairs, least_usd_per_hour=pairs.usd_per_hour + rest_usd), others, best, kind
        )
        kept = bound < best
        least, most = np.full(len(nodes), np.inf), np.full(len(nodes), -np.inf)
        np.minimum.at(least, row[kept], bound[kept])
        np.maximum.at(most, row[kept], most_usd[kept])
        price = nodes.least_usd_per_hour + self.job.extra_usd_per_hour
        slack = np.minimum(nodes.slack_usd_per_hour, most - price)
        return replace(nodes, bound=np.maximum(nodes.bound, least), slack_usd_per_hour=slack).take(
            np.isfinite(least)
        )

    def _supplied(self, nodes: Nodes) -> tuple[Nodes, IntArray]:
        """Returns the nodes that supply suffices for, with prices, and workers still to come."""
        last, wanted = _last_option(nodes), np.maximum(nodes.least_left, 0)
        rest_usd, per_sample = self.supply_bound.least_usd_per_hour(last, nodes.used, wanted)
        nodes = replace(
            nodes, least_usd_per_hour=nodes.usd_per_hour + rest_usd, usd_per_sample=per_sample
        )
        kept = np.isfinite(rest_usd)
        others = self.supply_bound.least_workers(last[kept], nodes.used[kept], wanted[kept])
        return nodes.take(kept), others

    def _slowest(self, nodes: Nodes) -> FloatArray:
        """Returns (N,) the mean time of the slowest of all workers so far, at least."""
        options = self.options
        depth = int(nodes.depth.max())
        option = nodes.option[:, :depth]
        here = option >= 0
        at = np.where(here, option, 0)
        means = np.where(here, options.compute_s[at], 0.0)
        stds = means * options.spread[options.kind[at]]
        workers = np.where(options.is_open[at], 1, nodes.workers[:, :depth])
        workers = np.where(here, workers, 0).astype(np.float64)
        return self.time_bound.bounds.slowest_of(means, stds, workers)

    def _judged(self, nodes: Nodes, others: IntArray, best: float) -> Nodes:
        """Returns the nodes that may keep the limits and beat `best`, with their bounds.

        Args:
            nodes: N nodes, with their least prices.
            others: (N,) workers still to come, at least.
            best: objective of the best configuration so far.
        """
        if not len(nodes):
            return nodes
        bound, most_usd = self._judge(nodes, others, best)
        slack = most_usd - nodes.least_usd_per_hour - self.job.extra_usd_per_hour
        return replace(nodes, bound=bound, slack_usd_per_hour=slack).take(bound < best)

    def _judge(
        self, nodes: Nodes, others: IntArray, best: float, coming: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Returns (N,) bounds, infinite where a limit is missed, and the most that VMs may cost.

        Args:
            nodes: N nodes, with their least prices; infinite where supply does not suffice.
            others: (N,) workers still to come, at least.
            best: objective of the best configuration so far.
            coming: (N,) a type that is still to come, if one is known.
        """
        job = self.job
        price = nodes.least_usd_per_hour + job.extra_usd_per_hour
        mean_s, spread_s = self.time_bound.least(nodes, others, coming)
        count, limits = job.iterations, job.limits
        launch_s = job.overheads.launch_s
        time_s = launch_s + job.overheads.billed_s(count) + count * mean_s
        sure_s = time_s + float(ndtri(limits.confidence)) * count * spread_s
        billed_h = np.maximum(time_s - launch_s, self.options.least_billed_s) / _S_PER_HOUR
        sure_h = np.maximum(sure_s - launch_s, self.options.least_billed_s) / _S_PER_HOUR
        counted_s, counted_h = (sure_s, sure_h) if self.sure else (time_s, billed_h)
        most_usd = np.full(len(nodes), np.inf)
        kept = np.isfinite(price)
        if limits.deadline_s is not None:
            kept &= sure_s <= limits.deadline_s * _ROUNDING
        with np.errstate(divide="ignore", invalid="ignore"):
            if limits.budget_usd is not None:
                kept &= price * sure_h <= limits.budget_usd * _ROUNDING
                most_usd = np.minimum(most_usd, limits.budget_usd / sure_h)
            if job.objective is Objective.COST:
                bound = price * counted_h
                most_usd = np.minimum(most_usd, best / counted_h)
            else:
                bound = counted_s
        return np.where(kept, np.maximum(bound, nodes.bound), np.inf), most_usd


def _last_option(nodes: Nodes) -> IntArray:
    """Returns (N,) the option of the last group; −1 for the root."""
    last = nodes.option[np.arange(len(nodes)), np.maximum(nodes.depth - 1, 0)]
    return np.where(nodes.depth > 0, last, -1).astype(np.int64)
