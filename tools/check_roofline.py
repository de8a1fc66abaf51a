"""Measures how well the roofline predicts GPUs that were measured: leave one GPU out.

Every number here is computed from public curves; `build_samples.py` prints them into
`docs/samples.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import architectures
import numpy as np
import public_curves
from public_curves import Curve

from srifty.compute.roofline import Efficiency, layer_times_s
from srifty.compute.scaling import scale_profile
from srifty.compute.speed import SpeedModel
from srifty.core.hardware import GpuModel
from srifty.core.profile import BatchLatency, Layer, WorkloadProfile

# The samples keep the figures that they were made with; the library's own are fitted on more data.
# The efficiencies suit the measured curves below; the T4 (70 W) reaches 70 % of the others' shares.
SPEED = SpeedModel(flops=0.25, bandwidth=0.75, tensor=0.0)
EFFICIENCY = Efficiency(flops=0.55, bandwidth=0.8, launch_s=80e-6, tensor_flops=0.55)
EFFICIENCIES = {
    "T4": Efficiency(flops=0.385, bandwidth=0.56, launch_s=80e-6, tensor_flops=0.385),
}


class Point(NamedTuple):
    """One predicted batch.

    Attributes:
        group: the measured pair, such as `T4 to V100`.
        error: true over predicted time, minus one.
        host_bound: whether the faster GPU was no faster there: the host or the input ruled.
    """

    group: str
    error: float
    host_bound: bool


class Score(NamedTuple):
    """How a group of predictions did; errors are |true / predicted - 1|."""

    group: str
    points: int
    median: float
    p90: float
    within_30: float
    within_50: float


def scaling_points(data: Path, gpus: Mapping[str, GpuModel]) -> list[Point]:
    """Returns each measured curve predicted from the other GPU's curve of the same source."""
    points: list[Point] = []
    for curves in (
        public_curves.sia_curves(data),
        public_curves.gavel_curves(data),
        public_curves.virtualflow_curves(data),
    ):
        for (workload, gpu), curve in curves.items():
            for (other_workload, other_gpu), other in curves.items():
                if workload == other_workload and gpu != other_gpu:
                    points += _predict(curve, other, gpus)
    return points


def scores(points: list[Point]) -> list[Score]:
    """Returns one score per pair of GPUs without host-bound points, then over all of them."""
    groups = sorted({point.group for point in points})
    free = [point for point in points if not point.host_bound]
    modern = [point for point in free if "K80" not in point.group]
    return [
        *(_score(group, [p for p in free if p.group == group]) for group in groups),
        _score("T4, P100 and V100", modern),
        _score("all pairs", free),
        _score("all pairs, host-bound points too", points),
    ]


def layer_scores(data: Path, gpus: Mapping[str, GpuModel]) -> list[Score]:
    """Returns how well layer tables predict measured fp32 curves, per workload and GPU."""
    sia, gavel = public_curves.sia_curves(data), public_curves.gavel_curves(data)
    tables = {
        "resnet50": architectures.resnet50(),
        "bert-base": architectures.bert_base(),
        "resnet18-cifar": architectures.resnet18_cifar(),
        "yolov3": architectures.yolov3(),
    }
    curves = [("resnet50", gavel["ResNet-50", gpu]) for gpu in ("P100", "V100")]
    for name, model in (("bert-base", "bert"), ("resnet18-cifar", "cifar10"), ("yolov3",) * 2):
        curves += [(name, sia[model, gpu]) for gpu in ("T4", "V100")]
    found: list[Score] = []
    everything: list[Point] = []
    for name, curve in curves:
        layers = [layer_of(spec) for spec in tables[name]]
        fast = {spec.name for spec in tables[name] if spec.fast}
        reached = EFFICIENCIES.get(curve.gpu, EFFICIENCY)
        slower = sia[curve.workload, "T4"].points if (curve.workload, "T4") in sia else []
        group = f"{name} on {curve.gpu}"
        points: list[Point] = []
        for batch, true_s in curve.points:
            parts = layer_times_s(layers, gpus[curve.gpu], batch, "fp32", reached, fast_layers=fast)
            host_bound = (
                curve.gpu == "V100"
                and bool(slower)
                and batch <= slower[-1][0]
                and true_s >= 0.6 * float(np.interp(batch, *zip(*slower, strict=True)))
            )
            predicted_s = float(parts[0].sum() + parts[1].sum())
            points.append(Point(group, true_s / predicted_s - 1, host_bound))
        everything += points
        free = [point for point in points if not point.host_bound]
        if free:
            found.append(_score(group, free))
    found.append(_score("all", [point for point in everything if not point.host_bound]))
    return found


def layer_of(spec: architectures.LayerSpec) -> Layer:
    """Returns a layer of the tables as a value of the library, at 4 bytes an element."""
    return Layer(spec.name, spec.flops, 4.0 * spec.elements, spec.parameters)


def profile_of(curve: Curve, *, workload: str | None = None, max_batch: int = 1) -> WorkloadProfile:
    """Returns a bare profile of whole-step times."""
    return WorkloadProfile(
        workload=workload or curve.workload,
        gpu=curve.gpu,
        precision=curve.precision,
        latencies=tuple(
            BatchLatency(batch=batch, iteration_s=time_s) for batch, time_s in curve.points
        ),
        max_batch=max_batch,
    )


def _predict(curve: Curve, other: Curve, gpus: Mapping[str, GpuModel]) -> list[Point]:
    predicted = scale_profile(
        profile_of(curve), gpus[curve.gpu], gpus[other.gpu], speed=SPEED, max_batch=1
    )
    batches = [latency.batch for latency in predicted.latencies]
    times_s = [latency.step_s for latency in predicted.latencies]
    pair = sorted((curve, other), key=lambda c: gpus[c.gpu].peak_flops["fp32"])
    slow, fast = (np.array(c.points) for c in pair)
    points: list[Point] = []
    for batch, true_s in other.points:
        if batches[0] <= batch <= batches[-1]:
            host_bound = np.interp(batch, *fast.T) >= np.interp(batch, *slow.T)
            error = true_s / float(np.interp(batch, batches, times_s)) - 1
            points.append(Point(f"{curve.gpu} to {other.gpu}", error, bool(host_bound)))
    return points


def _score(group: str, points: list[Point]) -> Score:
    error = np.abs([point.error for point in points])
    return Score(
        group,
        len(points),
        float(np.median(error)),
        float(np.quantile(error, 0.9)),
        float((error <= 0.3).mean()),
        float((error <= 0.5).mean()),
    )
