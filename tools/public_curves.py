"""Reads measured single-GPU curves from the public measurements that the samples are made from."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SIA = (
    "Sia (SOSP'23) and Pollux (OSDI'21) traces, siasosp23/artifacts "
    "@aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70"
)
GAVEL = (
    "Gavel (OSDI'20), stanford-futuredata/gavel @c4fa40097339e9608ab71fd64c8bdea96a5e4a4c, "
    "scheduler/simulation_throughputs.json"
)
TF_LOGS = "VirtualFlow (MLSys'22), andrewor14/tf-logs @dd5f2c578e3443e53c3e91bfa0f82c2b111b4c34"
SAILOR = "Sailor (SOSP'25), eth-easl/sailor @cf2c8e3cc53ce178fe58a4003f46b4b6b848fc33"
NETX = (
    "netx-repo/training-bottleneck @f81b140ea804558d15cd98af54ac4c290f2e022f "
    "(simulation/bk_time_logs)"
)


class Curve(NamedTuple):
    """Step times of one workload on one GPU.

    Attributes:
        workload: the source's name of the workload.
        gpu: our name of the GPU model.
        precision: the precision that the source ran.
        points: batch size and seconds per step, by ascending batch.
    """

    workload: str
    gpu: str
    precision: str
    points: list[tuple[int, float]]


def sia_curves(data: Path) -> dict[tuple[str, str], Curve]:
    """Returns the one-GPU curves of T4 (EC2 g4dn.12xlarge) and V100 (Azure)."""
    found: dict[tuple[str, str], Curve] = {}
    for row in _rows(data / "sia_pollux" / "step_times.csv"):
        if row["table"] != "placements" or row["placement"] != "1":
            continue
        key = (row["model"], row["gpu"])
        # The authors' ImageNet script trains through apex AMP, the others have no such switch on.
        precision = "fp16" if row["model"] == "imagenet" else "fp32"
        curve = found.setdefault(key, Curve(*key, precision, []))
        curve.points.append((int(row["local_bsz"]), float(row["step_time"])))
    return {key: curve._replace(points=sorted(curve.points)) for key, curve in found.items()}


def gavel_curves(data: Path) -> dict[tuple[str, str], Curve]:
    """Returns the one-GPU curves of P100 and V100 in Gavel's simulation table, fp32."""
    found: dict[tuple[str, str], Curve] = {}
    for row in _rows(data / "gavel_shockwave" / "throughputs_isolated.csv"):
        gpu = row["worker_type"].upper()
        alone = row["source_file"] == "gavel_simulation" and row["scale_factor"] == "1"
        if not alone or gpu not in ("P100", "V100") or not float(row["iter_time_s"] or 0):
            continue
        key = (row["model"], gpu)
        if row["batch_size_per_gpu"]:
            curve = found.setdefault(key, Curve(*key, "fp32", []))
            curve.points.append((int(row["batch_size_per_gpu"]), float(row["iter_time_s"])))
    return {
        key: curve._replace(points=sorted(curve.points))
        for key, curve in found.items()
        if len(curve.points) > 2
    }


def virtualflow_curves(data: Path) -> dict[tuple[str, str], Curve]:
    """Returns the fp32 BERT fine-tuning curves of V100 and K80 (TensorFlow)."""
    found: dict[tuple[str, str], Curve] = {}
    for row in _rows(data / "virtualflow_het" / "single_gpu_batch_profiles.csv"):
        if row["dtype"] != "fp32" or row["gpu"] not in ("V100", "K80"):
            continue
        key = (row["workload"], row["gpu"])
        curve = found.setdefault(key, Curve(*key, "fp32", []))
        curve.points.append((int(row["batch_size"]), float(row["step_ms"]) / 1000))
    return {key: curve._replace(points=sorted(curve.points)) for key, curve in found.items()}


class SplitPoint(NamedTuple):
    """One training step, seconds: forward, backward, optimizer."""

    batch: int
    forward_s: float
    backward_s: float
    optimizer_s: float


def sailor_points(data: Path, model: str, gpu: str) -> list[SplitPoint]:
    """Returns the summed layer times without tensor parallelism, by ascending batch."""
    sums: dict[int, list[float]] = {}
    for row in _rows(data / "sailor" / "layer_profiles.csv"):
        if (row["model"], row["gpu"], row["tp"]) == (model, gpu, "1"):
            total = sums.setdefault(int(row["mbs"]), [0.0, 0.0, 0.0])
            for index, column in enumerate(("fwd_s", "bwd_s", "update_s")):
                total[index] += float(row[column])
    return [SplitPoint(batch, *sums[batch]) for batch in sorted(sums)]


def backward_order(data: Path, model: str) -> list[tuple[int, float]]:
    """Returns bytes and cumulative seconds of each gradient in the order in which it came."""
    return [
        (int(row["param_bytes"]), float(row["cumulative_us"]) * 1e-6)
        for row in _rows(data / "netx_backward_logs" / "layer_backward_done.csv")
        if row["model"] == model
    ]


def allreduce_rows(data: Path) -> Iterator[dict[str, str]]:
    """Yields the rows of the nccl-tests collection."""
    yield from _rows(data / "nccl-tests" / "allreduce.csv")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
