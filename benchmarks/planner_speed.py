"""How many configurations per second are simulated, and how long the paper's jobs take to plan.

    python -m benchmarks.planner_speed [--rows 20000]

from the repository's root, on one core. Data: the built-in ResNet-50 sample (161 gradient tensors)
and allreduce samples; random configurations of two or three VM groups with ±1 remainders, a
distinct (world size, batches) in every row, straggler integral and the job's P90 included. The
first rows are checked against the plain-Python reference of the tests. "By batch": the same with
made-up ready times at five batch sizes of each GPU type.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tests.builders import with_ready_at
from tests.simulator.reference import reference_iteration_s

from benchmarks.paper_jobs import PAPER_CASES, prepare
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.catalog import builtin_instance_types, resolve
from srifty.compute.latency import LatencyModel
from srifty.core.job import GradientSync, Job, Sharing, SyncMode
from srifty.core.notation import format_config
from srifty.core.offers import Market
from srifty.core.supply import QuotaEntry, SupplyRequest
from srifty.files import builtin_profiles
from srifty.planner import plan
from srifty.simulator import ConfigTable, Simulator, forecast_jobs

_TYPES = ("g4dn.12xlarge", "p3.8xlarge", "g3.8xlarge")
_REPEATS = 3
_SIZES = (4, 16, 32, 64, 128)


def random_table(rows: int, seed: int) -> tuple[ConfigTable, Simulator, Job]:
    """Returns distinct random configurations of two or three groups, with simulator and job."""
    request = SupplyRequest(
        "aws", "us-east-1", (Market.SPOT,), tuple(QuotaEntry(name, None, 64) for name in _TYPES)
    )
    every = resolve(request).offers  # one a zone
    offers = tuple(next(o for o in every if o.instance_type.name == name) for name in _TYPES)
    profiles = builtin_profiles("resnet50")
    simulator = Simulator(
        {profile.gpu: LatencyModel.fit(profile) for profile in profiles},
        LearnedModel(blend_of(builtin_source(), builtin_instance_types())),
    )
    rng = np.random.default_rng(seed)
    offer = np.tile(np.arange(3), (rows, 1))
    count = rng.integers(1, 33, (rows, 3))
    dropped = rng.integers(0, 6, rows)  # a third of the rows keep all three groups
    for group in range(3):
        count[dropped == group, group] = 0
    gpus = np.array([o.instance_type.gpus for o in offers])[offer]
    samples = gpus * rng.integers(4, 120, (rows, 3)) + rng.integers(0, 2, (rows, 3))
    table = ConfigTable(offers, offer, count, samples, gpus, np.ones_like(samples))
    keys = np.concatenate([count, np.where(count > 0, samples, 0)], axis=1)
    _, first = np.unique(keys, axis=0, return_index=True)
    return table.take(np.sort(first)), simulator, Job("speed", profiles, 1024, 400)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--checked", type=int, default=1_000)
    arguments = parser.parse_args()
    table, simulator, base = random_table(arguments.rows, seed=1)
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{len(table):,} distinct configurations, best of {_REPEATS}, one core\n")
    print(f"{'exchange':<38}{'configurations/s':>18}{'largest error':>16}")
    modes = (
        ("bucketed, one slot", GradientSync()),
        ("bucketed, two slots", GradientSync(slots=2)),
        ("per layer, one slot", GradientSync(SyncMode.PER_LAYER)),
        ("per layer, paper's sharing", GradientSync(SyncMode.PER_LAYER, sharing=Sharing.PAPER)),
    )
    sized = replace(base, profiles=tuple(with_ready_at(p, _SIZES, late=0.2) for p in base.profiles))
    cases = [
        (name + suffix, replace(job, sync=sync))
        for job, suffix in ((base, ""), (sized, ", by batch"))
        for name, sync in modes
    ]
    for name, job in cases:
        best_s = np.inf
        for _ in range(_REPEATS):
            began = time.perf_counter()
            forecasts = simulator.predict(job, table)
            forecast_jobs(job, table, forecasts).time_quantile_s(0.9)
            best_s = min(best_s, time.perf_counter() - began)
        error = max(
            abs(reference_iteration_s(simulator, job, table.config(row)) / mean - 1)
            for row, mean in enumerate(forecasts.mean_s[: arguments.checked])
        )
        print(f"{name:<38}{len(table) / best_s:>18,.0f}{error:>16.1e}")

    print(f"\n{'case':<14}{'considered':>11}{'ours, s':>9}{'paper, s':>10}  plan")
    for case in PAPER_CASES:
        ready = prepare(case)
        results = [
            plan(ready.job, ready.offers, ready.simulator, ready.batch_ranges)
            for _ in range(_REPEATS)
        ]
        result = min(results, key=lambda r: r.seconds)
        shown = format_config(result.plan.config) if result.plan else result.verdict.value
        print(
            f"{case.name:<14}{result.considered:>11,}{result.seconds:>9.3f}{case.paper_s:>10.1f}"
            f"  {shown}"
        )


if __name__ == "__main__":
    main()
