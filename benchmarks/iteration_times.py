"""How well iteration times of real clusters are forecast from other ones.

    python -m benchmarks.iteration_times --data ../shared/data/sia_pollux [-o FILE.md]

from the repository's root. The data are step times of AdaptDL jobs on g4dn.12xlarge (4 x T4), one
to 16 VMs (Sia/Pollux traces); the script writes them in the form that `srifty evaluate iterations`
reads, runs that command for both splits, and prints its figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, builtin_source
from srifty.calibration import (
    Fold,
    HoldOut,
    LinkPrior,
    calibrate,
    folds,
    forecast_observed,
    observed_configs,
)
from srifty.catalog import builtin_instance_types
from srifty.cli._observed import open_observed
from srifty.core.job import Overheads
from srifty.core.observation import Observation
from srifty.simulator import forecast_jobs

_PREDICTORS = ("srifty", "apm", "compute-only")
_COLUMNS = ("workload", "gpu", "instance_type", "placement", "vms", "workers", "local_batch")
# The cluster of the traces → its instance type; Azure's is not stated there.
_INSTANCE_TYPES = {"aws": "g4dn.12xlarge", "azure": "azure-8xV100"}
_SMALL = 4
_JOB_ITERATIONS = 1000
_SPLITS = {
    "Each workload from the others": ("--hold-out", "workload"),
    "6, 8, 12 and 16 VMs from 2, 3 and 4": ("--hold-out", "nodes", "--train-max-vms", "4"),
}


def cluster_rows(step_times: Path, cluster: str) -> list[dict[str, str]]:
    """Returns the rows of one cluster of the public table, as `evaluate iterations` reads them."""
    instance_type = _INSTANCE_TYPES[cluster]
    with step_times.open(encoding="utf-8") as file:
        return [
            {
                "workload": row["model"],
                "gpu": row["gpu"],
                "instance_type": instance_type,
                "placement": "-".join(row["placement"]),
                "vms": row["num_nodes"],
                "workers": row["num_replicas"],
                "local_batch": row["local_bsz"],
                "step_s": row["step_time"],
                "sync_s": row["sync_time"],
            }
            for row in csv.DictReader(file)
            if row["cluster"] == cluster
        ]


def write_rows(rows: list[dict[str, str]], path: Path) -> None:
    """Writes rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        stated = ("step_s", "sync_s", "gradient_bytes", "rated_gbit_per_s", "accumulation")
        writer = csv.DictWriter(file, [*_COLUMNS, *stated])
        writer.writeheader()
        writer.writerows(rows)


def evaluate(path: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """Returns what `srifty evaluate iterations` says of a file."""
    command = [sys.executable, "-m", "srifty.cli.main", "evaluate", "iterations", str(path)]
    done = subprocess.run([*command, *options, "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def two_against_three(rows: list[dict[str, str]], column: str) -> dict[str, float]:
    """Returns by workload the median of t(2 VMs) / t(3 VMs), 4 GPUs each, over the batches."""
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["placement"] in ("4-4", "4-4-4"):
            key = (row["workload"], row["local_batch"])
            times.setdefault(key, {})[row["placement"]] = float(row[column])
    ratios: dict[str, list[float]] = {}
    for (workload, _), pair in times.items():
        if len(pair) == 2:
            ratios.setdefault(workload, []).append(pair["4-4"] / pair["4-4-4"])
    return {name: sorted(values)[len(values) // 2] for name, values in ratios.items()}


def order_error(rows: list[dict[str, str]]) -> float:
    """Returns how far measurements differ whose VMs only stand in another order.

    Each is compared with the geometric mean of the others of its workload, batch and GPUs per VM.
    """
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        used = "-".join(sorted(row["placement"].split("-")))
        if "-" in used:
            key = (row["workload"], row["local_batch"], used)
            groups.setdefault(key, []).append(math.log(float(row["step_s"])))
    errors = [
        abs(math.exp((sum(group) - value) / (len(group) - 1) - value) - 1)
        for group in groups.values()
        if len(group) > 1
        for value in group
    ]
    return sum(errors) / len(errors)


def term_errors(path: Path) -> dict[str, float]:
    """Returns the mean error with each term of the calibration taken away in turn.

    On clusters of 2 to 4 VMs alone, each workload from the others, so that the choice of terms does
    not rest on what the second split holds out.
    """
    observed = open_observed(path)
    blend = blend_of(builtin_source(), {**builtin_instance_types(), **observed.kinds})
    prior = LearnedModel(blend).without_relatives(observed.kinds)
    rows = [row for row in observed.observations if row.vms <= _SMALL]
    fixed = 1e-3
    usual = LinkPrior().std
    variants = {
        "all terms": LinkPrior(),
        "no factor for two VMs": LinkPrior(std=replace(usual, two_vms=fixed)),
        "no factor for GPUs per VM": LinkPrior(std=replace(usual, per_log_gpus=fixed)),
        "no effect of workloads": LinkPrior(effect_std=fixed),
        "effects of ±10 % instead of ±20 %": LinkPrior(effect_std=0.1),
        "effects of ±30 % instead of ±20 %": LinkPrior(effect_std=0.3),
        "spread between workers assumed": LinkPrior(log_spread_std=fixed),
        "no contention for host or loader": LinkPrior(slowdown=0.0, slowdown_std=fixed),
    }
    errors: dict[str, float] = {}
    for words, link_prior in variants.items():
        by_fold: list[float] = []
        for part in folds(rows, HoldOut.WORKLOAD, train_max_vms=_SMALL):
            kind = observed.kinds[part.instance_type]
            found = calibrate(kind, part.learned, observed.workloads, prior, link_prior)
            workload = observed.workloads[part.held[0].workload]
            mean_s = forecast_observed(part.held, workload, found, prior).mean_s
            measured_s = np.array([row.step_s for row in part.held])
            by_fold.append(float(np.abs(mean_s / measured_s - 1).mean()))
        errors[words] = sum(by_fold) / len(by_fold)
    return errors


def promises_kept(path: Path) -> dict[str, tuple[int, float, dict[str, float]]]:
    """Returns how often jobs end within the time that a plan promises with nine odds in ten.

    A job is `_JOB_ITERATIONS` iterations of one row that was held out, each as long as measured;
    the promise is the quantile that `srifty plan` checks deadlines and budgets with, from a
    simulator that was calibrated on what the split leaves in.

    Returns:
        By split: the jobs, the share that ends in time, and that share by workload.
    """
    observed = open_observed(path)
    blend = blend_of(builtin_source(), {**builtin_instance_types(), **observed.kinds})
    prior = LearnedModel(blend).without_relatives(observed.kinds)
    found: dict[str, tuple[int, float, dict[str, float]]] = {}
    for title, parts in _promise_splits(observed.observations).items():
        kept: dict[str, list[bool]] = {}
        for part in parts:
            kind = observed.kinds[part.instance_type]
            learned = calibrate(kind, part.learned, observed.workloads, prior)
            for name in dict.fromkeys(row.workload for row in part.held):
                rows = [row for row in part.held if row.workload == name]
                workload = observed.workloads[name]
                iterations = forecast_observed(rows, workload, learned, prior)
                overheads = Overheads(launch_s=0.0, restore_s=0.0)
                job = replace(workload.job, iterations=_JOB_ITERATIONS, overheads=overheads)
                jobs = forecast_jobs(job, observed_configs(rows, kind), iterations)
                measured_s = _JOB_ITERATIONS * np.array([row.step_s for row in rows])
                within = measured_s <= jobs.time_quantile_s(0.9)
                kept.setdefault(name, []).extend(map(bool, within))
        every = [each for own in kept.values() for each in own]
        by_workload = {name: sum(own) / len(own) for name, own in sorted(kept.items())}
        found[title] = (len(every), sum(every) / len(every), by_workload)
    return found


def _promise_splits(rows: tuple[Observation, ...]) -> dict[str, list[Fold]]:
    """Returns the folds of each split: other workloads, fewer VMs, and both at once."""
    workloads = folds(rows, HoldOut.WORKLOAD, train_max_vms=_SMALL)
    both = [
        replace(
            part,
            learned=tuple(row for row in part.learned if row.vms <= _SMALL),
            held=tuple(row for row in part.held if row.vms > _SMALL),
        )
        for part in workloads
    ]
    return {
        "each workload from the others": list(workloads),
        "more than 4 VMs from 2 to 4": list(folds(rows, HoldOut.NODES, train_max_vms=_SMALL)),
        "both: more than 4 VMs from 2 to 4 of the other workloads": both,
    }


def page(data: Path) -> str:
    """Returns the results as a Markdown page."""
    rows = cluster_rows(data / "step_times.csv", "aws")
    lines = [
        "# Iteration times from other iteration times",
        "",
        "`python -m benchmarks.iteration_times --data ../shared/data/sia_pollux`",
        "",
        "g4dn.12xlarge (4 x T4), Sia/Pollux traces: six workloads on 1 to 16 VMs, real input",
        "pipelines, one mean per configuration. Learned from: at most four one-GPU rows of every",
        "workload, and the rows that the split leaves in. What is forecast has several VMs.",
        "APM's link is fitted to the same rows.",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "iterations.csv"
        held: list[dict[str, str]] = []
        forecasts = Path(folder) / "forecasts.csv"
        write_rows(rows, path)
        for title, options in _SPLITS.items():
            lines += ["", f"## {title} (`{' '.join(options)}`)", ""]
            lines += _tables(evaluate(path, (*options, "-o", str(forecasts))))
            if options[1] == "workload":
                with forecasts.open(encoding="utf-8") as file:
                    held = list(csv.DictReader(file))
        promises = promises_kept(path)
        terms = term_errors(path)
        write_rows(cluster_rows(data / "step_times.csv", "azure"), path)
        azure = evaluate(path, ("--hold-out", "workload"))
    names = sorted({name for _, _, by_workload in promises.values() for name in by_workload})
    lines += [
        "",
        "## Jobs that end within what a plan promises",
        "",
        f"Jobs of {_JOB_ITERATIONS:,} iterations, each as long as measured, against the 90 %",
        "quantile of the job's time: what `srifty plan` checks a deadline with.",
        "",
        f"| learned from | jobs | end in time | {' | '.join(names)} |",
        "|---" * (3 + len(names)) + "|",
        *(
            f"| {title} | {count:,} | {share:.1%} | "
            + " | ".join(f"{by_workload[name]:.0%}" for name in names)
            + " |"
            for title, (count, share, by_workload) in promises.items()
        ),
        "",
        "## What each term of the calibration is worth",
        "",
        "Clusters of 2 to 4 VMs alone, each workload from the others; mean over the workloads.",
        "",
        "| | mean error |",
        "|---|---|",
        *(f"| {words} | {error:.1%} |" for words, error in terms.items()),
    ]
    ratios = [two_against_three(held, column) for column in ("step_s", "srifty_s", "apm_s")]
    lines += [
        "",
        "## Two VMs against three, 4 GPUs each",
        "",
        "Median over the batches of t(2 VMs) / t(3 VMs); above 1, two are slower. Forecast from",
        "the other workloads.",
        "",
        "| workload | measured | srifty | apm |",
        "|---|---|---|---|",
        *(
            f"| {name} | " + " | ".join(f"{ratio[name]:.2f}" for ratio in ratios) + " |"
            for name in ratios[0]
        ),
    ]
    lines += [
        "",
        "## How far measurements of one configuration differ",
        "",
        f"VMs in another order, everything else equal: {order_error(rows):.1%} on average.",
        "",
        "## Another cluster: Azure VMs with 8 x V100, each workload from the others",
        "",
        "Their network is not stated; the calibration starts at an assumed one.",
        "",
        *_overall(azure),
    ]
    return "\n".join(lines) + "\n"


def _overall(result: dict[str, Any]) -> list[str]:
    keys = ("mape", "median", "underestimated_share", "underestimation_p90", "p90_coverage")
    lines = [
        f"{result['rows']:,} iterations.",
        "",
        "| | mean error | median | too low | 9 of 10 of those by at most | within the P90 |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | " + " | ".join(f"{result[name][k]:.1%}" for k in keys) + " |"
        for name in _PREDICTORS
    ]
    return lines


def _tables(result: dict[str, Any]) -> list[str]:
    lines = _overall(result)
    for key, heading in (("by_workload", "workload"), ("by_world_size", "world size")):
        lines += ["", f"| {heading} | rows | {' | '.join(_PREDICTORS)} | within the P90 |"]
        lines += ["|---|---|---|---|---|---|"]
        for group, ours in result["srifty"][key].items():
            errors = " | ".join(f"{result[name][key][group]['mape']:.1%}" for name in _PREDICTORS)
            lines.append(f"| {group} | {ours['rows']:,} | {errors} | {ours['p90_coverage']:.0%} |")
    return lines


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/sia_pollux"))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    text = page(options.data)
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
