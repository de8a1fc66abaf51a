"""What stands near the best plan of a search, so that runners-up and front are of use.

A search simulates only what may be the best; a reader wants to see alternatives: the same instance
types in other numbers, with one type more, and each type alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srifty.core.hardware import InstanceType
from srifty.planner.evaluate import Candidates
from srifty.planner.space import SpaceRule, Splits, enumerate_splits
from srifty.planner.supply import TypeSupply

# Configurations that are simulated for it, about: a fraction of a second.
_MOST_ROWS = 1_000


def neighbours(
    found: Candidates, places: Sequence[Sequence[TypeSupply]], rule: SpaceRule
) -> list[Splits]:
    """Returns splits near the best plan, for each place; none where no plan meets the limits.

    Args:
        found: what a search saw.
        places: what can be had in each place.
        rule: which splits the space holds.
    """
    ranked = found.ranked(found.feasible)
    if not ranked.size:
        return [_widened([], len(supplies)) for supplies in places]
    used = {group.offer.instance_type for group in found.configs.config(int(ranked[0])).groups}
    most = _MOST_ROWS // len(places)
    return [_near(supplies, used, found.job.global_batch, rule, most) for supplies in places]


def _near(
    supplies: Sequence[TypeSupply],
    used: set[InstanceType],
    global_batch: int,
    rule: SpaceRule,
    most: int,
) -> Splits:
    together = tuple(t for t, s in enumerate(supplies) if s.instance_type in used)
    others = [t for t in range(len(supplies)) if t not in together]
    further = [tuple(sorted((*together, t))) for t in others]
    alone = [(t,) for t in range(len(supplies))]
    sets = list(dict.fromkeys([together, *further, *alone]))
    parts: list[tuple[tuple[int, ...], Splits]] = []
    for kinds in filter(None, sets):
        some = [supplies[t] for t in kinds]
        share = max(most // 4 if kinds == together else most // len(sets), 1)
        parts.append((kinds, enumerate_splits(some, global_batch, rule, most_rows=share)))
    return _widened(parts, len(supplies))


def _widened(parts: Sequence[tuple[tuple[int, ...], Splits]], types: int) -> Splits:
    """Returns the splits of some types as splits of all."""
    workers = [np.zeros((0, types), dtype=np.int64)]
    samples = [np.zeros((0, types), dtype=np.int64)]
    for kinds, own in parts:
        for wide, narrow in ((workers, own.workers), (samples, own.samples)):
            wide.append(np.zeros((len(own), types), dtype=np.int64))
            wide[-1][:, list(kinds)] = narrow
    return Splits(np.concatenate(workers), np.concatenate(samples))
