"""What choosing by a forecast costs: the chosen plan's measured bill against the best measured one.

A question is one workload at one global batch; its answers are all held-out runs with that batch,
on two different numbers of VMs at least. Every method picks the cheapest run by its own forecast,
either without a limit or among those that it believes to keep a deadline, which is the median of
what was measured: half of the answers keep it. VMs are billed whole, at on-demand prices.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.forecasts import Forecasts

FloatArray = NDArray[np.float64]

ITERATIONS = 1000
_FEWEST_RUNS = 3
METHODS = ("srifty", "srifty at 90 %", "apm", "linear scaling")


@dataclass(frozen=True)
class Regret:
    """How one method did over Q questions.

    Attributes:
        usd: (Q,) what its choice cost more than the best; NaN without a choice.
        share: (Q,) the same over the best's bill.
        late_by: (Q,) by how much its choice missed the deadline, a fraction; 0 where it did not.
    """

    usd: FloatArray
    share: FloatArray
    late_by: FloatArray

    @property
    def refused(self) -> NDArray[np.bool_]:
        """(Q,) whether it has no plan."""
        return np.isnan(self.usd)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """(Q,) whether it has a plan that kept the deadline."""
        return ~self.refused & (self.late_by <= 0)


def regrets(found: Forecasts, usd_per_hour: float, *, deadline: bool) -> dict[str, Regret]:
    """Returns by method what its choices cost more than the best measured one.

    Args:
        found: runs of one instance type.
        usd_per_hour: of one VM.
        deadline: whether the median of the measured times must be kept.
    """
    usd_per_s = np.array([run.vms for run in found.runs]) * usd_per_hour / 3600 * ITERATIONS
    believed = {
        "srifty": (found.mean_s, found.mean_s),
        "srifty at 90 %": (found.mean_s, found.p90_s),
        "apm": (found.apm_s, found.apm_s),
        "linear scaling": (found.linear_s, found.linear_s),
    }
    outcome: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for rows in questions(found):
        measured_s, bill = found.measured_s[rows], usd_per_s[rows]
        limit_s = float(np.median(measured_s)) if deadline else np.inf
        best = float(np.min((bill * measured_s)[measured_s <= limit_s]))
        for name, (expected_s, sure_s) in believed.items():
            chosen = cheapest(bill * expected_s[rows], sure_s[rows], limit_s)
            if chosen is None:
                outcome[name].append((np.nan, np.nan, 0.0))
                continue
            over = float((bill * measured_s)[chosen]) - best
            late_by = max(float(measured_s[chosen]) / limit_s - 1, 0.0)
            outcome[name].append((over, over / best, late_by))
    return {
        name: Regret(*(np.array(column) for column in zip(*answers, strict=True)))
        for name, answers in outcome.items()
    }


def questions(found: Forecasts) -> list[NDArray[np.int64]]:
    """Returns the runs of each question."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, run in enumerate(found.runs):
        groups[run.workload, run.local_batch * run.world_size].append(place)
    return [
        np.array(places)
        for places in groups.values()
        if len(places) >= _FEWEST_RUNS and len({found.runs[place].vms for place in places}) > 1
    ]


def cheapest(bill: FloatArray, time_s: FloatArray, limit_s: float) -> int | None:
    """Returns the cheapest answer within a limit; None where none is within it."""
    within = time_s <= limit_s
    if not within.any():
        return None
    return int(np.where(within, bill, np.inf).argmin())
