"""How far the allreduce models are off on public nccl-tests logs, held out by group.

    python -m benchmarks.allreduce_accuracy --data ../shared/data/nccl-tests

Every split trains on the rest alone; `auto` chooses its blend anew each time, from the training
rows. Out-of-place times; the mean gives every family (instance type) the same weight.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np

from srifty.allreduce.evaluation import (
    LEAST_PAIRS,
    SIZE_CLASSES,
    Scored,
    estimators,
    evaluate,
    noise_floor,
)
from srifty.allreduce.loading import load_samples
from srifty.allreduce.splits import By
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types

SPLITS = {
    By.WORLD_SIZE: "One inner multi-VM world of a curve at a time (`--by world-size`)",
    By.LARGEST_WORLD_SIZE: (
        "The largest multi-VM world of each curve, but three sizes of it as probes that are never "
        "scored (`--by largest-world-size`)"
    ),
    By.ALLOCATION: "One run at a time; the others measured the same worlds (`--by allocation`)",
    By.CURVE: "One whole curve at a time (`--by curve`)",
    By.RANDOM: "A fifth of the rows at random, which flatters (`--by random`)",
}
WORDS = {"mib": "1 MiB and more", "all": "all sizes", "small": "up to 9,001 B", "large": "above"}


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public logs")
    arguments = parser.parse_args()
    table = SampleTable.of(load_samples(arguments.data / "allreduce.csv"))
    makers = estimators(builtin_instance_types())
    floor = noise_floor(table)
    print("# Allreduce times from other allreduce times\n")
    print("`python -m benchmarks.allreduce_accuracy --data ../shared/data/nccl-tests`\n")
    print(
        f"{len(table):,} out-of-place times of {len(table.curves)} curves. Mean absolute relative "
        "error of times. Repeats of one configuration differ by\n"
        + ", ".join(f"{floor.mape[c]:.1%} ({words})" for c, words in WORDS.items())
        + f" on average ({floor.samples:,} samples have repeats).\n"
    )
    for by, words in SPLITS.items():
        print(f"## {words}\n")
        scored = evaluate(table, by, makers, progress=partial(_tell, by))
        _print(scored)
        if by is By.CURVE:
            print(
                "Families without a relative are answered by trees alone (`boosted`, `paper`, and "
                "within `auto`); the others' means leave them out.\n"
            )


def _tell(by: By, done: int, of: int) -> None:
    print(f"\r{by}: {done}/{of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _print(scored: Scored) -> None:
    families = scored.families()
    names = list(scored.forecast_s)
    for size_class in ("mib", "all", "small"):
        print(f"| {WORDS[size_class]} | worlds | {' | '.join(names)} |")
        print("|---" * (len(names) + 2) + "|")
        errors = {
            family: [scored.mape(name, rows, size_class) for name in names]
            for family, rows in families.items()
            if (rows & SIZE_CLASSES[size_class](scored.table.size_bytes)).any()
        }
        for family, cells in errors.items():
            pairs = scored.pairs(families[family])
            few = "" if pairs >= LEAST_PAIRS else " (few)"
            print(f"| {family}{few} | {pairs} | {' | '.join(map(_percent, cells))} |")
        means = np.nanmean(np.array(list(errors.values())), axis=0)
        print(f"| **mean** | | {' | '.join(_percent(float(mean)) for mean in means)} |\n")
    covered = {family: scored.coverage(rows) for family, rows in families.items()}
    mean = float(np.nanmean(list(covered.values())))
    parts = ", ".join(f"{family} {_percent(share)}" for family, share in covered.items())
    print(f"`auto`'s 90 % intervals cover {_percent(mean)} (mean over families): {parts}.")
    if scored.floored:
        print(f"`paper` forecast a bandwidth of zero or less {scored.floored} times.")
    print()


def _percent(share: float) -> str:
    return "–" if share != share else f"{share:.1%}"


if __name__ == "__main__":
    main()
