"""Reads the public measurements that `variance` draws from."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.testbed.variance import STATED, Variation, relative, robust_log_sd

Row = dict[str, str]
Key = tuple[str, ...]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", Path(__file__).parents[3] / "shared" / "data"))
# pagerank is a constant on one cluster and no training on the others; the A100 cluster was
# measured once per GPU, so that a slow GPU and a slow run cannot be told apart.
_WORKLOADS = frozenset({"resnet", "bert", "sgemm"})
_MEASURED_ONCE = "ls6-"
_BANDWIDTH_SIZE = "4194304"
_ALLREDUCE_SIZE = "1048576"
_LEAST_REPEATS = 4
_P5_TO_P95_SD = 3.29  # of a normal distribution


def load_variation(folder: Path = DATA) -> Variation:
    """Spreads as measured, from the folder of public data; `STATED` where there is no folder.

    Raises:
        FileNotFoundError: the folder is there and lacks one of the four files.
    """
    if not folder.is_dir():
        return STATED
    return Variation(
        compute_between=_compute_between(folder / "variance" / "gpu_variability.csv"),
        compute_within=_compute_within(
            folder / "lambda_gpu_benchmarks" / "resnet50_iteration_time_summary.csv"
        ),
        link_between=_link_between(folder / "variance" / "osu_p2p_cloud.csv"),
        link_within=_link_within(folder / "other-allreduce" / "osu_allreduce_cloud.csv"),
        sources=(
            "V100 and RTX 5000 GPUs, ResNet-50, BERT and SGEMM, each over its cluster's median",
            "ResNet-50 on single-GPU VMs, 5th to 95th percentile of a run's iterations",
            "pairs of AWS and Google V100 VMs, 4 MiB messages, each over its cluster's median",
            "repeated allreduces of 1 MiB on V100 VMs, a cluster each, by absolute deviations",
        ),
    )


def _rows(path: Path) -> Iterator[Row]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def _grouped(rows: Iterator[Row], key: Callable[[Row], Key], value: str) -> dict[Key, list[float]]:
    groups: dict[Key, list[float]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(float(row[value]))
    return groups


def _cluster(row: Row) -> Key:
    names = ("cloud", "env", "instance_type", "nodes", "variant")
    return tuple(row[name] for name in names)


def _compute_between(path: Path) -> tuple[float, ...]:
    rows = (
        row
        for row in _rows(path)
        if row["workload"] in _WORKLOADS and not row["dataset"].startswith(_MEASURED_ONCE)
    )
    by_gpu = _grouped(rows, lambda row: (row["dataset"], row["gpu_idx"]), "perf")
    by_cluster: dict[str, list[float]] = defaultdict(list)
    for (dataset, *_gpu), times in by_gpu.items():
        by_cluster[dataset].append(float(np.median(times)))
    return relative(list(by_cluster.values()))


def _compute_within(path: Path) -> tuple[float, ...]:
    return tuple(
        (float(row["iter_ms_p95"]) - float(row["iter_ms_p5"]))
        / (_P5_TO_P95_SD * float(row["iter_ms_p50"]))
        for row in _rows(path)
        if row["gpus"] == "1"
    )


def _link_between(path: Path) -> tuple[float, ...]:
    # Azure's rows mix pairs on one machine with pairs across machines.
    rows = (
        row
        for row in _rows(path)
        if row["metric"] == "osu_bw_mb_s"
        and row["kind"] == "gpu"
        and row["cloud"] in {"aws", "google"}
        and row["size_bytes"] == _BANDWIDTH_SIZE
    )
    return relative(list(_grouped(rows, _cluster, "value").values()))


def _link_within(path: Path) -> tuple[float, ...]:
    rows = (
        row for row in _rows(path) if row["kind"] == "gpu" and row["size_bytes"] == _ALLREDUCE_SIZE
    )
    groups = _grouped(rows, _cluster, "avg_latency_us").values()
    return tuple(robust_log_sd(group) for group in groups if len(group) >= _LEAST_REPEATS)
