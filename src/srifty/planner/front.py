"""The time–cost front, its knee, and what a little more of one buys of the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from srifty.core.notation import format_config
from srifty.core.plan import Marginal, Plan
from srifty.units import format_duration, format_usd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def pareto_front(first: FloatArray, second: FloatArray) -> IntArray:
    """Returns the rows that no other beats in both quantities, by ascending `first`.

    Of equal rows one is kept. Rows with an infinite quantity are left out.
    """
    order = np.lexsort((second, first))
    order = order[np.isfinite(first[order]) & np.isfinite(second[order])]
    best_before = np.concatenate([[np.inf], np.minimum.accumulate(second[order])[:-1]])
    return order[second[order] < best_before]


def knee_of(time_s: FloatArray, cost_usd: FloatArray) -> int | None:
    """Returns the index of the front's knee: farthest below the line through its ends.

    Both axes are logarithmic, so that the knee does not depend on units.

    Args:
        time_s: (F,) ascending.
        cost_usd: (F,) descending.
    """
    if len(time_s) == 0:
        return None
    if len(time_s) < 3 or cost_usd[-1] <= 0:
        return 0 if len(time_s) == 1 else None
    x = np.log(time_s / time_s[0]) / np.log(time_s[-1] / time_s[0])
    y = np.log(cost_usd / cost_usd[-1]) / np.log(cost_usd[0] / cost_usd[-1])
    return int(np.argmin(x + y))


def marginals_of(chosen: Plan, front: tuple[Plan, ...]) -> tuple[Marginal, ...]:
    """Returns the best bargains beside the chosen plan: time for money, and money for time.

    Of the faster plans on the front the one that saves most seconds for a dollar, of the cheaper
    ones the one that saves most dollars for a second.
    """
    time_s, cost = chosen.forecast.time_s.mean, chosen.forecast.cost_usd.mean

    def bargain(plans: list[Plan], *, buys_time: bool) -> Marginal:
        """Returns the plan that gives most of one thing for the least of the other."""
        sign = 1 if buys_time else -1
        extras = [
            (p.forecast.time_s.mean - time_s, p.forecast.cost_usd.mean - cost, p) for p in plans
        ]
        extra_s, extra_usd, plan = max(extras, key=lambda e: (-e[0] / e[1]) ** sign)
        gain = (
            f"{format_usd(extra_usd)} more in total would end {format_duration(-extra_s)} sooner"
            if buys_time
            else f"{format_duration(extra_s)} more would save {format_usd(-extra_usd)} in total"
        )
        return Marginal(f"{gain}: {format_config(plan.config)}", plan, extra_usd, extra_s)

    faster_dearer = [
        plan
        for plan in front
        if plan.forecast.time_s.mean < time_s * (1 - 1e-9) and plan.forecast.cost_usd.mean > cost
    ]
    slower_cheaper = [
        plan
        for plan in front
        if plan.forecast.cost_usd.mean < cost * (1 - 1e-9) and plan.forecast.time_s.mean > time_s
    ]
    marginals: list[Marginal] = []
    if faster_dearer:
        marginals.append(bargain(faster_dearer, buys_time=True))
    if slower_cheaper:
        marginals.append(bargain(slower_cheaper, buys_time=False))
    return tuple(marginals)
