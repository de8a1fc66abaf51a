"""Why a plan that wants to be fast does not use more VMs: what their exchange would cost."""

from __future__ import annotations

import numpy as np

from srifty.core.job import Objective
from srifty.core.notation import format_config
from srifty.core.plan import Marginal, Plan
from srifty.planner.evaluate import Candidates
from srifty.units import format_duration


def larger_cluster_notes(found: Candidates, row: int, chosen: Plan) -> tuple[Marginal, ...]:
    """Returns the fastest larger cluster of the same instance types, where none is faster.

    Args:
        found: what was searched.
        row: the chosen plan's row.
        chosen: the chosen plan.
    """
    if found.job.objective is not Objective.TIME:
        return ()
    kinds = np.array([offer.instance_type.name for offer in found.configs.offers])
    used = found.configs.count > 0
    names = {str(name) for name in kinds[found.configs.offer[row][used[row]]]}
    same = (np.isin(kinds, sorted(names))[found.configs.offer] | ~used).all(axis=1)
    larger = same & found.available & (found.configs.world_size > found.configs.world_size[row])
    time_s = found.jobs.time_mean_s
    if not larger.any() or time_s[larger].min() < time_s[row]:
        return ()
    fastest = int(np.flatnonzero(larger)[time_s[larger].argmin()])
    other = found.plan(fastest)
    iteration = other.forecast.iteration
    message = (
        f"More VMs would not be faster: {format_config(other.config)} ends in "
        f"{format_duration(other.forecast.time_s.mean)}; of each iteration of "
        f"{format_duration(iteration.mean_s)}, {format_duration(iteration.exposed_exchange_s)} are "
        "exchange that nothing hides"
    )
    return (
        Marginal(
            message,
            other,
            other.forecast.cost_usd.mean - chosen.forecast.cost_usd.mean,
            other.forecast.time_s.mean - chosen.forecast.time_s.mean,
        ),
    )
