"""What a profile is worth on a GPU: limit, latency, cost of the hooks, order of the gradients.

    python -m benchmarks.profile_gpu [--tiny] [--models resnet50 ...] [-o FILE.md]

from the repository's root; needs torch and, but for --tiny (small models, any device), a GPU with
16 GB. For ResNet-50 in fp32, LoRA on a model of GPT-2's size in bf16, and a compiled BERT-base in
bf16: the largest batch by the search against that by fixed increments, both with isolated trials;
the error of the four placed probes at other sizes; what the hooks cost; and whether the order in
which gradients are ready is that of another batch size. About ten minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks import profile_gpu_models as models
from srifty.compute.fit import fit_latency
from srifty.core.profile import GradientSchedule
from srifty.profiling.device import Device, find_device
from srifty.profiling.gradients import measure_gradients, measure_overhead
from srifty.profiling.isolated import IsolatedTrials
from srifty.profiling.limit import BatchLimit, find_limit
from srifty.profiling.placement import Predict, candidate_sizes, geometric_probes, place_probes
from srifty.profiling.ready_times import ready_error
from srifty.profiling.scouting import scout
from srifty.profiling.steps import Precision, StepRunner
from srifty.profiling.timing import Stopwatch, summarise
from srifty.profiling.trial import TrialSettings, bounds_of
from srifty.profiling.workload import Workload

_PROBES = 4
_ROUNDS, _STEPS = 5, 5
# Increments by which the largest batch is looked for, as a share of what the search found.
_INCREMENT = 0.05


@dataclass(frozen=True)
class Case:
    """One model to profile.

    Attributes:
        name: of the function in `benchmarks.profile_gpu_models` that makes it.
        precision: of the passes.
        compiled: whether through `torch.compile`.
    """

    name: str
    precision: Precision
    compiled: bool = False

    def make(self) -> Workload:
        """Returns a fresh workload."""
        return getattr(models, self.name)()


@dataclass(frozen=True)
class Result:
    """What was measured of one model.

    Attributes:
        case: the model.
        limit: the largest batch by the search; None where it was not looked for.
        by_increments: the largest by increments; 0 likewise.
        seconds: of the search, and of the increments.
        probes: the batch sizes that were timed.
        error_percent: mean error at the other sizes, of the whole step.
        floor_percent: one measurement of the same sizes against another.
        hooks_percent: what the hooks cost, and its standard error.
        ready: mean difference of ready times between two batch sizes, of the backward pass.
        same_order: whether gradients are ready in the same order at both.
    """

    case: Case
    limit: BatchLimit | None
    by_increments: int
    seconds: tuple[float, float]
    probes: tuple[int, ...]
    error_percent: float
    floor_percent: float
    hooks_percent: tuple[float, float]
    ready: float
    same_order: bool


FULL = (
    Case("resnet50", "fp32"),
    Case("gpt2_lora", "bf16"),
    Case("bert_compiled", "bf16", compiled=True),
)
TINY = (Case("tiny_resnet", "fp32"), Case("tiny_lora", "bf16"))


def fit(batches: Sequence[int], latencies_s: Sequence[float]) -> Predict:
    """Returns the latency model's curve."""
    return fit_latency(batches, latencies_s).predict


def find_limits(
    case: Case, device: Device, most: int | None, seconds: float
) -> tuple[BatchLimit, int, tuple[float, float]]:
    """Returns the largest batch by the search, by increments, and the seconds of each."""
    settings = TrialSettings(case.precision, compiled=case.compiled)
    trials = IsolatedTrials(
        f"benchmarks.profile_gpu_models:{case.name}", str(device.place), settings
    )
    bounds = bounds_of(case.make(), device, most, isolated=True)
    began_s = time.perf_counter()
    limit = find_limit(trials, bounds, least_steps=settings.total_steps, seconds=seconds)
    searched_s = time.perf_counter() - began_s
    step = max(1, int(_INCREMENT * limit.raw_max))
    # From a few increments below what was found: from 1 it would take an hour.
    largest, batch = 0, max(limit.min_batch, limit.raw_max - 3 * step)
    while batch <= min(limit.raw_max + 3 * step, bounds.most) and trials(batch).fits:
        largest, batch = batch, batch + step
    return limit, largest, (searched_s, time.perf_counter() - began_s - searched_s)


def measure_latency(
    runner: StepRunner, most: int, *, compiled: bool
) -> tuple[tuple[int, ...], float, float]:
    """Returns the placed probes, their error at the other sizes and the noise floor, percent."""
    stopwatch = Stopwatch(runner)
    # Every size is compiled by itself, and torch keeps eight of them.
    sizes = candidate_sizes(1, most, 8 if compiled else 14)
    for size in sizes:
        stopwatch.warm_up(size)
    if compiled:
        placed = geometric_probes(sizes, _PROBES)
    else:
        placed = place_probes(scout(stopwatch, sizes), _PROBES, fit).batches
    seen: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for half in seen:
        chunks = {size: [stopwatch.chunk(size, _STEPS) for _ in range(_ROUNDS)] for size in sizes}
        half |= {
            size: (timed := summarise(chunks[size])).forward_s + timed.backward_s for size in sizes
        }
    shown, truth = seen
    others = [size for size in sizes if size not in placed]
    predicted = fit(placed, [shown[size] for size in placed])(np.array(others, dtype=float))
    errors = [abs(p / truth[size] - 1) for p, size in zip(predicted, others, strict=True)]
    floor = [abs(shown[size] / truth[size] - 1) for size in sizes]
    error = float(np.mean(errors)) if errors else float("nan")
    return placed, 100 * error, 100 * float(np.mean(floor))


def measure(case: Case, device: Device, most: int | None, search_s: float) -> Result:
    """Returns all figures of one model.

    Args:
        case: the model.
        device: where.
        most: a cap on the batch; None: memory.
        search_s: seconds for the search; 0: the cap is taken as the largest batch.
    """
    limit, by_increments, seconds = None, 0, (0.0, 0.0)
    if search_s > 0:
        limit, by_increments, seconds = find_limits(case, device, most, search_s)
    largest = limit.max_batch if limit is not None else most or 1
    runner = StepRunner(case.make(), device, case.precision, compiled=case.compiled)
    placed, error, floor = measure_latency(runner, largest, compiled=case.compiled)
    schedules: list[GradientSchedule] = []
    for size in (max(1, largest // 4), largest):
        batch = device.move(runner.workload.batch_of(size))
        schedules.append(measure_gradients(runner, batch).schedule)
    overhead = measure_overhead(runner, batch)
    orders = [[gradient.name for gradient in one.gradients] for one in schedules]
    return Result(
        case=case,
        limit=limit,
        by_increments=by_increments,
        seconds=seconds,
        probes=placed,
        error_percent=error,
        floor_percent=floor,
        hooks_percent=(100 * overhead.fraction, 100 * overhead.std),
        ready=ready_error(*schedules),
        same_order=orders[0] == orders[1],
    )


def page(results: Sequence[Result], device: Device) -> str:
    """Returns the results as a Markdown page."""
    lines = [
        "# Profiles on a GPU",
        "",
        "`python -m benchmarks.profile_gpu -o docs/results/profile_gpu.md`",
        "",
        f"{device.name}, torch {torch.__version__}.",
        "",
        "| model | B_max by search | by increments | seconds | probes | error | floor | hooks |"
        " ready times | same order |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        words = f"{one.case.name}, {one.case.precision}{', compiled' * one.case.compiled}"
        limit = "" if one.limit is None else f"{one.limit.raw_max} (safe {one.limit.safe_max})"
        lines.append(
            f"| {words} | {limit} | {one.by_increments or ''} "
            f"| {one.seconds[0]:.0f} + {one.seconds[1]:.0f} "
            f"| {', '.join(map(str, one.probes))} | {one.error_percent:.1f} % "
            f"| {one.floor_percent:.1f} % | {one.hooks_percent[0]:+.2f} ± "
            f"{one.hooks_percent[1]:.2f} % | {one.ready:.3f} "
            f"| {'yes' if one.same_order else 'no'} |"
        )
    return "\n".join([*lines, ""])


def main(say: Callable[[str], None] = print) -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="small models, on any device")
    parser.add_argument("--models", nargs="*", help="some of them only")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--search-seconds", type=float, default=90.0, help="for each model")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    cases, most = (TINY, 8) if arguments.tiny else (FULL, None)
    chosen = [case for case in cases if case.name in (arguments.models or [case.name])]
    results: list[Result] = []
    for case in chosen:
        results.append(measure(case, device, most, arguments.search_seconds))
        say(str(results[-1]))
    text = page(results, device)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        say(text)


if __name__ == "__main__":
    main()
