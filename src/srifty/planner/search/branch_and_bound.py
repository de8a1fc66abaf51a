"""Best first: the node of the smallest bound is looked at next, until none can beat the best.

A node is a partial configuration, its groups in the order of falling latency. One group more makes
it a whole configuration, which is simulated, or another node. What cannot beat the best one so far,
or cannot keep a limit, is left out; so when no node is left, the best one is the optimum, and while
some are left, the smallest of their bounds says how far from the optimum it is at most.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from srifty.planner.search.nodes import Nodes
from srifty.planner.search.place import Place
from srifty.planner.space import Splits

FloatArray = NDArray[np.float64]

# Splits of one place → the best feasible objective among them, infinite where there is none.
Evaluate = Callable[[int, Splits], float]

# Nodes that are looked at together: few at first, so that a good configuration is known soon.
_FEWEST, _MOST = 16, 4096
# Children that a round may make, about: a round is over in a fraction of the time limit.
_CHILDREN = 200_000
# Configurations that are simulated together.
_FEW_WHOLE, _MANY_WHOLE = 64, 2048
# Of waiting nodes so many are kept in order.
_HOT = 30_000
# Waiting nodes that memory is good for; the worst of more are given up, and with them some proof.
_MOST_WAITING = 3_000_000
# The best is called optimal where nothing can be better by more than this share: rounding.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a search ended.

    Attributes:
        best: objective of the best configuration; infinite where none was found.
        bound: no configuration has a smaller objective.
    """

    best: float
    bound: float

    @property
    def gap(self) -> float:
        """By which share of its objective the best one can be beaten at most; 0: it is optimal."""
        if not math.isfinite(self.best):
            return 0.0 if math.isinf(self.bound) else 1.0
        if self.best <= 0:
            return 0.0
        gap = 1 - min(self.bound, self.best) / self.best
        return gap if gap > _EQUAL else 0.0


@dataclass
class _Waiting:
    """Nodes that wait, those of small bounds at hand."""

    hot: Nodes | None = None
    cold: list[Nodes] = field(default_factory=list[Nodes])
    cold_bound: float = math.inf
    given_up: float = math.inf

    def least(self) -> float:
        hot = float(self.hot.bound.min()) if self.hot is not None and len(self.hot) else math.inf
        return min(hot, self.cold_bound)

    def add(self, nodes: Nodes) -> None:
        if len(nodes):
            self.cold.append(nodes)
            self.cold_bound = min(self.cold_bound, float(nodes.bound.min()))

    def give_up(self, nodes: Nodes) -> None:
        """Leaves nodes out for good: nothing below their bounds is proved any more."""
        self.given_up = min(self.given_up, float(nodes.bound.min()))

    def pop(self, most: int, best: float, below: float = math.inf) -> Nodes | None:
        """Returns at most so many nodes, those of the smallest bounds; None if none is below."""
        hot = self.hot
        hot_bound = float(hot.bound.min()) if hot is not None and len(hot) else math.inf
        if self.cold_bound <= hot_bound and self.cold:
            self._merge(best)
        hot = self.hot
        if hot is None or not len(hot):
            return None
        few = hot.bound < min(best, below)
        if not few.any():
            return None
        order = np.argsort(hot.bound, kind="stable")
        taken = order[: min(most, int(few.sum()))]
        rest = order[len(taken) :]
        self.hot = hot.take(rest)
        return hot.take(taken)

    def _merge(self, best: float) -> None:
        parts = [*self.cold, *([self.hot] if self.hot is not None else [])]
        nodes = Nodes.concatenate(parts)
        nodes = nodes.take(nodes.bound < best)
        self.cold, self.cold_bound = [], math.inf
        if len(nodes) > _HOT:
            order = np.argpartition(nodes.bound, _HOT)
            if len(nodes) > _MOST_WAITING:
                order = np.argsort(nodes.bound, kind="stable")
                self.give_up(nodes.take(order[_MOST_WAITING:]))
                order = order[:_MOST_WAITING]
            rest = nodes.take(order[_HOT:])
            self.cold, self.cold_bound = [rest], float(rest.bound.min())
            nodes = nodes.take(order[:_HOT])
        self.hot = nodes


@dataclass
class _Tree:
    """A place's tree, with the nodes and the whole configurations that wait."""

    place: Place
    number: int
    nodes: _Waiting
    whole: _Waiting

    def least(self) -> float:
        return min(self.nodes.least(), self.whole.least())


def search(
    places: Sequence[Place],
    evaluate: Evaluate,
    *,
    ends_at: float,
    best: float = math.inf,
    tolerance: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Outcome:
    """Returns how far the best configuration, which `evaluate` saw, is from the optimum at most.

    Args:
        places: the places in which a configuration may live.
        evaluate: simulates splits of a place.
        ends_at: when to stop, by `clock`.
        best: objective of the best configuration that is known already.
        tolerance: a gap that is good enough.
        clock: tells the time in seconds.
    """
    trees = [_Tree(place, i, _Waiting(), _Waiting()) for i, place in enumerate(places)]

    def simulate(tree: _Tree, most: int, below: float = math.inf) -> bool:
        nonlocal best
        nodes = tree.whole.pop(most, best * (1 - _EQUAL), below)
        if nodes is None:
            return False
        best = min(best, evaluate(tree.number, tree.place.splits(nodes)))
        return True

    def expand(tree: _Tree, nodes: Nodes) -> int:
        """Returns how many children were looked at; gives the nodes up if time is over first."""
        made = 0
        for count, whole in tree.place.whole(nodes, best):
            tree.whole.add(whole)
            made += count
            if clock() >= ends_at:
                tree.nodes.give_up(nodes)
                break
        simulate(tree, _FEW_WHOLE)
        for count, children in tree.place.partial(nodes, best):
            made += count
            if clock() >= ends_at:
                tree.nodes.give_up(nodes)
                break
            deep = children.depth >= children.option.shape[1]
            if deep.any():
                tree.nodes.give_up(children.take(deep))
                children = children.take(~deep)
            tree.nodes.add(children)
        return made

    for tree in trees:
        expand(tree, tree.place.root())
    each = _FEWEST
    while True:
        queue = [(tree.least(), tree.number) for tree in trees]
        heapq.heapify(queue)
        bound, number = queue[0] if queue else (math.inf, 0)
        if bound >= best * (1 - max(tolerance, _EQUAL)) or math.isinf(bound) or clock() >= ends_at:
            break
        tree = trees[number]
        if tree.whole.least() <= tree.nodes.least():
            simulate(tree, _MANY_WHOLE)
            continue
        nodes = tree.nodes.pop(each, best * (1 - _EQUAL))
        if nodes is None:
            continue
        made = expand(tree, nodes)
        wanted = _CHILDREN * len(nodes) // max(made, 1)
        each = int(np.clip(min(wanted, 2 * each), _FEWEST, _MOST))
    given_up = min((min(t.nodes.given_up, t.whole.given_up) for t in trees), default=math.inf)
    left = min((tree.least() for tree in trees), default=math.inf)
    bound = min(left, given_up)
    return Outcome(best, bound if math.isfinite(bound) else best)
