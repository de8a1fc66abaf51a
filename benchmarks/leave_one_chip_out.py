"""Leave one chip out: curves estimated by what is fitted to the other chips alone.

A chip is held out with all cards that carry it; its curves are estimated from the same workload's
curves on other chips, or, from layers, from none. Intervals come from the errors on the remaining
chips, each held out once more.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.public_gpu_curves import CHIP, GPUS, Curve
from srifty.compute.efficiency import MeasuredSteps, fit_efficiency
from srifty.compute.intervals import WIDEST_FRACTION, conformal_fraction, scaled_fraction
from srifty.compute.latency import LatencyModel
from srifty.compute.roofline import Efficiency, LayerColumns
from srifty.compute.scaling import (
    comparable_profiles,
    different_gpus,
    estimate_profile,
    is_host_bound,
)
from srifty.compute.speed import Comparison, SpeedModel, distance, fit_speed
from srifty.core.profile import BatchLatency, Layer, WorkloadProfile
from srifty.core.work import StepWork

# The layer tables of the sample workloads are the tools', which are no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import architectures

BEYOND = 4
"""How far beyond the batches that were measured elsewhere an estimate is still asked for."""

Workloads = Mapping[tuple[str, str], Mapping[str, Curve]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Estimate:
    """One curve of a held-out chip and what was estimated.

    Attributes:
        curve: the measured curve.
        true_s: measured seconds at the batches that were estimated.
        predicted_s: estimated seconds.
        apart: distance to the nearest measured GPU; 0 from layers.
        gpus: number of different GPUs that the estimate comes from; 0 from layers.
        weight: how much it counts in the calibration of intervals.
    """

    curve: Curve
    true_s: np.ndarray
    predicted_s: np.ndarray
    apart: float
    gpus: int
    weight: float = 1.0

    @property
    def error(self) -> float:
        """Mean of |predicted / true - 1| over the batches."""
        return float(np.abs(self.predicted_s / self.true_s - 1.0).mean())

    @property
    def misses(self) -> np.ndarray:
        """|true / predicted - 1|: what the half width of the interval must reach."""
        return np.abs(self.true_s / self.predicted_s - 1.0)

    def inside(self, fraction: float) -> float:
        """Returns the share of the batches within the interval."""
        return float((self.misses <= fraction).mean())


@dataclass(frozen=True)
class Judged:
    """An estimate with the half width of its interval."""

    estimate: Estimate
    fraction: float


def workloads_of(curves: Iterable[Curve]) -> Workloads:
    """Returns the curves by data set and workload, then by GPU: those on at least two chips."""
    found: dict[tuple[str, str], dict[str, Curve]] = defaultdict(dict)
    for curve in curves:
        found[curve.data_set, curve.workload][curve.gpu] = curve
    return {key: on for key, on in found.items() if len({CHIP[gpu] for gpu in on}) > 1}


def chips_of(workloads: Workloads) -> list[str]:
    """Returns the chips, sorted."""
    return sorted({CHIP[gpu] for on in workloads.values() for gpu in on})


def comparisons(workloads: Workloads, held_out: frozenset[str]) -> list[Comparison]:
    """Returns the ratios of all pairs of chips that are not held out.

    At the largest batch of both where both were measured around it; else the ratio of the times
    per sample at the largest batch of each.
    """
    found: list[Comparison] = []
    for on in workloads.values():
        kept = [curve for curve in on.values() if CHIP[curve.gpu] not in held_out]
        for one, other in combinations(kept, 2):
            if CHIP[one.gpu] == CHIP[other.gpu]:
                continue
            batch = min(one.steps[-1][0], other.steps[-1][0])
            if batch >= max(one.steps[0][0], other.steps[0][0]):
                times = [float(np.interp(batch, *zip(*c.steps, strict=True))) for c in (one, other)]
            else:
                times = [curve.steps[-1][1] / curve.steps[-1][0] for curve in (one, other)]
            found.append(
                Comparison(
                    GPUS[one.gpu],
                    GPUS[other.gpu],
                    one.precision,
                    float(np.log(times[1] / times[0])),
                    1 / len(kept),
                )
            )
    return found


def profile_of(curve: Curve) -> WorkloadProfile:
    """Returns a bare profile of a curve."""
    return WorkloadProfile(
        workload=curve.workload,
        gpu=curve.gpu,
        precision=curve.precision,
        latencies=tuple(BatchLatency(b, iteration_s=time_s) for b, time_s in curve.steps),
        max_batch=curve.steps[-1][0],
    )


def scaled(
    curve: Curve,
    sources: Sequence[Curve],
    speed: SpeedModel,
    weight: float = 1.0,
    *,
    beyond: float = BEYOND,
) -> Estimate | None:
    """Returns a curve estimated from others, by the path that the planner takes too.

    None where no batch of it lies near those of the others.
    """
    low = min(source.steps[0][0] for source in sources) / beyond
    high = max(source.steps[-1][0] for source in sources) * beyond
    steps = [step for step in curve.steps if low <= step[0] <= high]
    if not steps:
        return None
    target = GPUS[curve.gpu]
    asked = [batch for batch, _ in steps]
    profiles = comparable_profiles(
        [profile_of(_proportional(source, asked)) for source in sources], GPUS, target
    )
    estimate = estimate_profile(
        profiles, GPUS, target, speed=speed, interval_fraction=0.0, max_batch=curve.steps[-1][0]
    )
    predicted_s = LatencyModel.fit(estimate).step_s(np.array(asked, dtype=float))
    return Estimate(
        curve=curve,
        true_s=np.array([time_s for _, time_s in steps]),
        predicted_s=predicted_s,
        apart=min(distance(GPUS[p.gpu], target, p.precision) for p in profiles),
        gpus=different_gpus(profiles, GPUS),
        weight=weight,
    )


def _proportional(curve: Curve, batches: Sequence[int]) -> Curve:
    """Returns a curve of one batch carried to others in proportion; any other curve as it is.

    A single batch is the largest that fitted, where time goes with the batch; one point alone has
    no launch part that could be told apart.
    """
    if len(curve.steps) > 1:
        return curve
    ((known, time_s),) = curve.steps
    return replace(curve, steps=tuple((batch, time_s * batch / known) for batch in batches))


def scaled_from_all(
    workloads: Workloads,
    chip: str,
    hidden: frozenset[str],
    speed: SpeedModel,
    *,
    beyond: float = BEYOND,
) -> list[Estimate]:
    """Returns the estimates of one chip's curves, each from all chips that are not hidden."""
    found = [
        scaled(curve, sources, speed, beyond=beyond)
        for curve, sources in _questions(workloads, chip, hidden)
    ]
    return [estimate for estimate in found if estimate is not None]


def base_fractions(workloads: Workloads, held_out: str, say: Say) -> tuple[float, float]:
    """Returns the bases of the intervals: from one other GPU and from several.

    The chips that are left are held out in turn too, so that every score is an error of a model
    that saw neither chip.
    """
    one: list[Estimate] = []
    several: list[Estimate] = []
    for chip in chips_of(workloads):
        if chip == held_out:
            continue
        say(f"without {held_out or 'none'}: errors on {chip}")
        hidden = frozenset({chip, held_out})
        speed = fit_speed(comparisons(workloads, hidden))
        for curve, sources in _questions(workloads, chip, hidden):
            singles = [scaled(curve, [s], speed, 1 / len(sources)) for s in sources]
            one += [single for single in singles if single is not None]
            together = scaled(curve, sources, speed)
            if together is not None and together.gpus > 1:
                several.append(together)
    return base_of(one), base_of(several)


def _questions(
    workloads: Workloads, chip: str, hidden: frozenset[str]
) -> Iterable[tuple[Curve, list[Curve]]]:
    for on in workloads.values():
        sources = [
            curve
            for curve in on.values()
            if CHIP[curve.gpu] not in hidden and not is_host_bound(profile_of(curve))
        ]
        for curve in on.values():
            if CHIP[curve.gpu] == chip and sources:
                yield curve, sources


def base_of(estimates: Sequence[Estimate]) -> float:
    """Returns what the half width per unit of 1 + distance must be: 90 % of the errors below."""
    scores: list[float] = []
    weights: list[float] = []
    for estimate in estimates:
        misses = estimate.misses / (1.0 + estimate.apart)
        scores += misses.tolist()
        weights += [estimate.weight / len(misses)] * len(misses)
    return conformal_fraction(scores, weights)


def judge_scaling(
    workloads: Workloads, say: Say
) -> tuple[list[Judged], list[tuple[str, SpeedModel, float, float]]]:
    """Returns every curve estimated from other chips, and what was fitted without each chip."""
    judged: list[Judged] = []
    fitted: list[tuple[str, SpeedModel, float, float]] = []
    for chip in chips_of(workloads):
        hidden = frozenset({chip})
        speed = fit_speed(comparisons(workloads, hidden))
        one, several = base_fractions(workloads, chip, say)
        fitted.append((chip, speed, one, several))
        for estimate in scaled_from_all(workloads, chip, hidden, speed):
            fraction = scaled_fraction(
                estimate.apart, estimate.gpus, one_gpu_base=one, several_gpus_base=several
            )
            judged.append(Judged(estimate, fraction))
    return judged, fitted


def refused(workloads: Workloads) -> list[Curve]:
    """Returns the curves that cannot be estimated: on all other chips the host rules."""
    found: list[Curve] = []
    for on in workloads.values():
        for curve in on.values():
            others = [c for c in on.values() if CHIP[c.gpu] != CHIP[curve.gpu]]
            if all(is_host_bound(profile_of(other)) for other in others):
                found.append(curve)
    return found


_TABLES = {
    ("sia_pollux", "bert fp32"): "bert-base",
    ("sia_pollux", "cifar10 fp32"): "resnet18-cifar",
    ("sia_pollux", "yolov3 fp32"): "yolov3",
    ("sia_pollux", "imagenet fp16"): "resnet50",
    ("nvidia_dle", "TensorFlow resnet50v1.5 fp16"): "resnet50",
    ("nvidia_dle", "TensorFlow resnet50v1.5 tf32"): "resnet50",
    ("lambda_gpu_benchmarks", "resnet50 fp16"): "resnet50",
    ("lambda_gpu_benchmarks", "resnet50 tf32"): "resnet50",
    ("lambda_gpu_benchmarks", "bert_base_squad fp16"): "bert-base",
    ("lambda_gpu_benchmarks", "bert_base_squad tf32"): "bert-base",
    **{
        ("timm", f"{model} {layout}"): model
        for model in ("resnet50", "vgg16_bn", "inception_v3")
        for layout in ("nchw", "nhwc")
    },
}


def layer_curves(curves: Iterable[Curve]) -> list[tuple[Curve, MeasuredSteps]]:
    """Returns the curves of workloads whose layers we have a table of."""
    tables = {
        "bert-base": architectures.bert_base(),
        "resnet18-cifar": architectures.resnet18_cifar(),
        "yolov3": architectures.yolov3(),
        "resnet50": architectures.resnet50(),
        "vgg16_bn": architectures.vgg16_bn(),
        "inception_v3": architectures.inception_v3(),
    }
    works = {
        name: StepWork(
            workload=name,
            precision="fp32",
            layers=tuple(Layer(s.name, s.flops, 4.0 * s.elements, s.parameters) for s in table),
            fast_layers=frozenset(s.name for s in table if s.fast),
        )
        for name, table in tables.items()
    }
    return [
        (curve, MeasuredSteps(works[name], GPUS[curve.gpu], curve.precision, curve.steps))
        for curve in curves
        if (name := _TABLES.get((curve.data_set, curve.workload)))
    ]


def from_layers(curve: Curve, steps: MeasuredSteps, efficiency: Efficiency) -> Estimate:
    """Returns a curve estimated from its layers alone."""
    columns = LayerColumns.of(
        steps.work.layers, steps.gpu, steps.precision, fast_layers=steps.work.fast_layers
    )
    batches = [batch for batch, _ in steps.steps]
    return Estimate(
        curve=curve,
        true_s=np.array([time_s for _, time_s in steps.steps]),
        predicted_s=columns.steps_s(batches, efficiency, steps.work.backward_ratio),
        apart=0.0,
        gpus=0,
    )


def judge_layers(
    known: Sequence[tuple[Curve, MeasuredSteps]], say: Say
) -> tuple[list[Judged], list[tuple[str, Efficiency, float]]]:
    """Returns every curve estimated from layers, and what was fitted without each chip."""
    chips = sorted({CHIP[curve.gpu] for curve, _ in known})
    errors: dict[frozenset[str], list[Estimate]] = defaultdict(list)
    for pair in combinations(chips, 2):
        say(f"layers without {' and '.join(pair)}")
        efficiency = fit_efficiency([s for c, s in known if CHIP[c.gpu] not in pair])
        errors[frozenset(pair)] = [
            from_layers(c, steps, efficiency) for c, steps in known if CHIP[c.gpu] in pair
        ]
    judged: list[Judged] = []
    fitted: list[tuple[str, Efficiency, float]] = []
    for chip in chips:
        scores = [
            estimate
            for pair, estimates in errors.items()
            if chip in pair
            for estimate in estimates
            if CHIP[estimate.curve.gpu] != chip
        ]
        fraction = min(WIDEST_FRACTION, base_of(scores))
        efficiency = fit_efficiency([s for c, s in known if CHIP[c.gpu] != chip])
        fitted.append((chip, efficiency, fraction))
        judged += [
            Judged(from_layers(curve, steps, efficiency), fraction)
            for curve, steps in known
            if CHIP[curve.gpu] == chip
        ]
    return judged, fitted
