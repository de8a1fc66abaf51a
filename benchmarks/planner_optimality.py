"""Is the planner's search exact? Random small problems, its answer against brute force.

    python -m benchmarks.planner_optimality [--problems 2000] [--first 0] [--points 20000]

from the repository's root, on one core. Problems have up to 4 instance types, random latency
curves, prices, quotas (some shared), zones, reservations, limits, sync modes, both objectives and
both batch rules; a third of them a network whose times follow no rule, so that its exchange has no
bound. The enumeration (`tests/planner/random_problems.py`) shares no code with the planner. Small
spaces are searched here, too, though a plan would enumerate them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import count

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.planner.random_problems import best_by_force, random_problem

from srifty.core.job import Objective
from srifty.planner import plan

# The straggler integral depends a little on how equal workers are grouped into offers.
_EQUAL = 1e-6


def main() -> None:
    """Prints how many answers agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--points", type=int, default=20_000)
    arguments = parser.parse_args()
    asked = right = without = relaxed = proved = points = looked = too_large = 0
    seconds = 0.0
    for seed in count(arguments.first):
        if asked == arguments.problems:
            break
        problem = random_problem(seed)
        known = best_by_force(problem, arguments.points)
        if known is None:
            too_large += 1
            continue
        best, size = known
        began = time.process_time()
        result = plan(
            problem.job, problem.offers, problem.simulator, problem.ranges,
            exhaustive_rows=-1, time_limit_s=600.0,
        )  # fmt: skip
        seconds += time.process_time() - began
        asked += 1
        points += size
        looked += result.considered + result.considered_remainder
        if best is None:
            without += 1
            last_resort = result.plan is not None and (
                any(group.accumulation > 1 for group in result.plan.config.groups)
                or any("No power-of-two" in warning for warning in result.warnings)
            )
            relaxed += last_resort
            agrees = result.plan is None or last_resort
        else:
            forecast = None if result.plan is None else result.plan.forecast
            value = float("inf")
            if forecast is not None:
                by_time = problem.job.objective is Objective.TIME
                value = (forecast.time_s if by_time else forecast.cost_usd).mean
            agrees = abs(value - best) <= _EQUAL * best
            proved += result.proved_optimal
        right += agrees
        if not agrees:
            print(f"problem {seed}: {result.verdict.name}, brute force {best}", flush=True)
        if asked % 100 == 0:
            print(f"{asked:,} problems, {right:,} equal", file=sys.stderr, flush=True)
    print(
        f"{asked:,} problems (and {too_large:,} of more than {arguments.points:,} points left out)"
    )
    print(f"equal to brute force: {right:,}")
    print(f"with a plan: {asked - without:,}, all but {asked - without - proved:,} proved optimal")
    print(f"without: {without:,}, of which {relaxed:,} get a plan of the last resort")
    print(f"points in all: {points:,}; simulated for searches, fronts and reasons: {looked:,}")
    print(f"CPU seconds of the planner: {seconds:,.0f}")


if __name__ == "__main__":
    main()
