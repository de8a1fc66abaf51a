"""How long the planner takes for large spaces, and how far from the optimum it ends at most.

    python -m benchmarks.planner_scale [--part power-of-two any exhaustive plot]
        [--space "4 types x 70"] [--seconds 5] [--svg docs/results/planner_scale.svg]

from the repository's root, on one core. Parts and spaces can be run one by one. Spaces are made of
real VM shapes and built-in samples (ResNet-50, 1,000 iterations), without and with a limit that
binds; each is searched under the time that is wanted for it. Beside it stands how far above it
`anchored` ends, and how long looking at every power-of-two configuration takes, where that is
feasible. Times, limits included, are CPU seconds of the whole answer; the plot shows them against
the number of types and against the quota.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

from benchmarks.planner_spaces import ALL_TYPES, SPACES, Space, prepare_space
from srifty.core.job import BatchRule, Objective
from srifty.core.notation import format_config
from srifty.core.plan import PlanResult
from srifty.planner import Method, choose, places_of, plan, supplies_of
from srifty.planner.evaluate import forecast_splits
from srifty.planner.space import SpaceRule, every_split

# Configurations that are looked at for the exhaustive times at most.
_MOST_ROWS = 30_000


def answer(
    space: Space, objective: Objective, rule: BatchRule, limit_s: float, *, limited: bool = False
) -> tuple[PlanResult, float]:
    """Returns the planner's answer and the CPU seconds that it took."""
    ready = prepare_space(space, objective, rule, limited=limited)
    began = time.process_time()
    result = plan(
        ready.job, ready.offers, ready.simulator, ready.batch_ranges,
        time_limit_s=limit_s, now=time.process_time,
    )  # fmt: skip
    return result, time.process_time() - began


def exhaustive_s(space: Space, objective: Objective) -> tuple[int, float] | None:
    """Returns how many configurations there are and how long they take; None: too many."""
    ready = prepare_space(space, objective, BatchRule.POWER_OF_TWO)
    rule = SpaceRule(BatchRule.POWER_OF_TWO)
    places = places_of(ready.offers, allow_cross_zone=False)
    supplies = [supplies_of(place, ready.batch_ranges) for place in places]
    began = time.process_time()
    splits = [
        every_split(own, ready.job.global_batch, rule, most_rows=_MOST_ROWS) for own in supplies
    ]
    if any(own is None for own in splits):
        return None
    found = forecast_splits(ready.job, supplies, splits, ready.simulator, rule)
    return len(found), time.process_time() - began


def shown_gap(result: PlanResult) -> str:
    """Returns how far the plan may be from the optimum."""
    if result.proved_optimal:
        return "optimum"
    return "unknown" if result.gap is None else f"{result.gap:.2%}"


def anchored_excess(
    space: Space, objective: Objective, rule: BatchRule, result: PlanResult, *, limited: bool
) -> str:
    """Returns how far above the planner's answer the anchored scheme ends, and its CPU seconds."""
    ready = prepare_space(space, objective, rule, limited=limited)
    began = time.process_time()
    other = choose(
        ready.job, ready.offers, ready.simulator, ready.batch_ranges, method=Method.ANCHORED
    )
    spent_s = time.process_time() - began
    if other is None or result.plan is None:
        return f"no plan, {spent_s:.1f} s"
    mine, its = (
        (p.forecast.time_s if objective is Objective.TIME else p.forecast.cost_usd).mean
        for p in (result.plan, other)
    )
    return f"{its / mine - 1:+.1%}, {spent_s:.1f} s"


def table(rule: BatchRule, spaces: Sequence[Space], seconds: float | None) -> None:
    """Prints one row per space, objective and limit."""
    print(f"\nlocal batches: {rule.value}\n")
    print(f"{'space':<16}{'minimise':<10}{'limit':<7}{'wanted':>7}{'CPU s':>8}{'gap':>9}"
          f"{'simulated':>11}{'anchored':>16}  plan")  # fmt: skip
    for space in spaces:
        for objective in Objective:
            for limited in (False, True):
                limit_s = seconds or space.target_s
                result, spent_s = answer(space, objective, rule, limit_s, limited=limited)
                beside = ""
                if rule is BatchRule.POWER_OF_TWO:  # with any batch it has hundreds of programs
                    beside = anchored_excess(space, objective, rule, result, limited=limited)
                best = result.plan or result.nearest
                config = format_config(best.config) if best else "–"
                looked = result.considered + result.considered_remainder
                gap = shown_gap(result) if result.plan else "no plan"
                bound = "yes" if limited else "no"
                print(f"{space.name:<16}{objective.value:<10}{bound:<7}{limit_s:>6.0f} "
                      f"{spent_s:>7.2f} {gap:>9}{looked:>11,}{beside:>16}  {config}",
                      flush=True)  # fmt: skip


def exhaustive(spaces: Sequence[Space]) -> None:
    """Prints how long looking at each configuration takes."""
    print("\nEvery power-of-two configuration, simulated:\n")
    for space in spaces:
        known = exhaustive_s(space, Objective.COST)
        shown = (
            f"more than {_MOST_ROWS:,}" if known is None else f"{known[0]:,} in {known[1]:.1f} s"
        )
        print(f"{space.name:<16}{shown}", flush=True)


def plot(path: Path) -> None:
    """Draws CPU seconds against the number of types and against the quota."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "planner_scale"
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    types = (2, 4, 6, 8, 10)
    quotas = (8, 32, 128, 512)
    base = Space("", ALL_TYPES[:3], 64, 1, 8192, 5.0)
    sweeps = (
        (left, "instance types (64 VMs of each)", types,
         lambda x: replace(base, types=ALL_TYPES[:x])),
        (right, "VMs of each of 3 types", quotas, lambda x: replace(base, quota=x)),
    )  # fmt: skip
    for axes, label, values, make in sweeps:
        for objective in Objective:
            spent = [answer(make(x), objective, BatchRule.POWER_OF_TWO, 5.0) for x in values]
            axes.plot(values, [s for _, s in spent], marker="o", label=f"least {objective.value}")
            for x, (result, s) in zip(values, spent, strict=True):
                if not result.proved_optimal:
                    axes.annotate(shown_gap(result), (x, s), fontsize=7)
        every = [(x, exhaustive_s(make(x), Objective.COST)) for x in values]
        done = [(x, known[1]) for x, known in every if known is not None]
        axes.plot(*zip(*done, strict=True), marker="x", color="gray", label="every configuration")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
        axes.set_yscale("log")
    left.set_ylabel("CPU seconds, one core")
    right.set_xscale("log", base=2)
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Prints the tables and draws the plot."""
    parts = ("power-of-two", "any", "exhaustive", "plot")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--space", nargs="+", choices=[s.name for s in SPACES], default=None)
    parser.add_argument("--seconds", type=float, default=None, help="for all spaces alike")
    parser.add_argument("--svg", type=Path, default=Path("docs/results/planner_scale.svg"))
    arguments = parser.parse_args()
    spaces = [s for s in SPACES if arguments.space is None or s.name in arguments.space]
    if "power-of-two" in arguments.part:
        table(BatchRule.POWER_OF_TWO, spaces, arguments.seconds)
    if "any" in arguments.part:
        table(BatchRule.ANY, spaces, arguments.seconds or 5.0)
    if "exhaustive" in arguments.part:
        exhaustive(spaces)
    if "plot" in arguments.part:
        plot(arguments.svg)


if __name__ == "__main__":
    main()
