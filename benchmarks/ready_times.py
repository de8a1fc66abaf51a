"""How well the ready times of gradients at one batch size tell those at another, by a real clock.

    python -m benchmarks.ready_times [--device auto] [--rounds 8] [--pairs 40] [--wall]

from the repository's root. On a CPU: one thread, by the CPU time of the process, so that what else
runs on the machine counts little (`--wall`: by the wall clock). The batch sizes take turns, round
by round. Prints, per model, mean absolute errors in hundredths of the backward pass:

* of each batch size's ready times against those of 64;
* of 64 as a profile with 16 and 128 gives it;
* as a profile stores it: of four timed sizes and at most four that are then added, against every
  size from 16 on that is not stored, on average and at the worst (and which that is);
* of the odd rounds against the even ones at 64, which is the noise floor;

and whether order and sizes were the same each time, and what the hooks cost at a batch of 16.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import mean, median

import numpy as np
import torch
from tests.profiling.models import Case, cnn, mlp, transformer, workload

from srifty.core.job import GradientSync, SyncMode
from srifty.core.profile import Gradient, GradientSchedule
from srifty.profiling.device import CpuDevice, Device, find_device
from srifty.profiling.gradients import GradientTimes, measure_gradients, measure_overhead
from srifty.profiling.ready_times import (
    MOST_ADDED,
    STEADY_BATCH,
    next_batch,
    ready_error,
    with_batches,
)
from srifty.profiling.steps import StepRunner
from srifty.profiling.workload import Workload
from srifty.simulator.transfers import transfers_of

_SHOWN = (1, 4, 16, 32, 128)
_TIMED = (1, 4, 24, 128)
_NEVER_STORED = (20, 40, 80, 112)
_BATCHES = (1, 4, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128)
_ENDS = (16, 128)
_REFERENCE = 64
_OVERHEAD_BATCH = 16


class CpuTimeDevice(CpuDevice):
    """A CPU whose clock stands still while other programs run; right with one thread."""

    def clock(self) -> float:
        """Returns the CPU time of this thread, seconds."""
        return time.thread_time()


def residual() -> Case:
    """Returns a residual network of 8 blocks for images of 32 by 32."""
    blocks: list[torch.nn.Module] = [_Block(3, 32, stride=1)]
    for before, after, stride in (
        (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2),
        (256, 256, 1),
    ):  # fmt: skip
        blocks.append(_Block(before, after, stride))
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 100)]
    return Case(torch.nn.Sequential(*blocks, *head), lambda b: torch.randn(b, 3, 32, 32))


class _Block(torch.nn.Module):
    """Two convolutions with a short cut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.main = torch.nn.Sequential(
            torch.nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
            torch.nn.BatchNorm2d(after),
            torch.nn.ReLU(),
            torch.nn.Conv2d(after, after, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(after),
        )
        self.short_cut = torch.nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.main(x) + self.short_cut(x))


def vgg() -> Case:
    """Returns plain convolutions before a wide dense head, for images of 32 by 32."""
    layers: list[torch.nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.ReLU()]
        layers.append(torch.nn.MaxPool2d(2))
    layers += [torch.nn.Flatten(), torch.nn.Linear(1024, 512), torch.nn.ReLU()]
    layers.append(torch.nn.Linear(512, 10))
    return Case(torch.nn.Sequential(*layers), lambda b: torch.randn(b, 3, 32, 32))


def combined(rounds: list[GradientTimes]) -> GradientTimes:
    """Returns the medians of several measurements, in the order of the first."""
    ready = [{g.name: g.ready for g in times.schedule.gradients} for times in rounds]
    gradients = [
        Gradient(g.name, g.bytes, median(one[g.name] for one in ready))
        for g in rounds[0].schedule.gradients
    ]
    schedule = GradientSchedule(tuple(sorted(gradients, key=lambda g: g.ready)))
    return replace(rounds[0], schedule=schedule, backward_s=median(t.backward_s for t in rounds))


def as_stored(schedule: GradientSchedule, batch: int) -> GradientSchedule:
    """Returns the ready times at a batch size as plans read them from a profile's schedule."""
    sent = transfers_of(schedule, GradientSync(SyncMode.PER_LAYER))
    fractions = sent.ready_at("any", np.array([batch]))[0]
    gradients = zip(schedule.gradients, fractions, strict=True)
    return GradientSchedule(tuple(Gradient(g.name, g.bytes, float(at)) for g, at in gradients))


def stored(found: dict[int, GradientTimes]) -> GradientSchedule:
    """Returns what a profile stores of what was found: timed sizes, and those that are added."""
    measured = [found[batch] for batch in _TIMED]
    candidates = [batch for batch in _BATCHES if batch not in _NEVER_STORED]
    for _ in range(MOST_ADDED):
        batch = next_batch(measured, candidates)
        if batch is not None:
            measured.append(found[batch])
    reference = min(batch for batch in _TIMED if batch >= STEADY_BATCH)
    return with_batches(found[reference], measured)


def described(times: GradientTimes) -> list[tuple[str, int]]:
    """Returns names and sizes in order of readiness."""
    return [(gradient.name, gradient.bytes) for gradient in times.schedule.gradients]


def row(job: Workload, device: Device, rounds: int, pairs: int) -> list[str]:
    """Returns the cells of one model."""
    runner = StepRunner(job, device)
    batches = {batch: device.move(job.batch_of(batch)) for batch in _BATCHES}
    taken: dict[int, list[GradientTimes]] = {batch: [] for batch in _BATCHES}
    for _ in range(rounds):
        for batch, data in batches.items():
            taken[batch].append(measure_gradients(runner, data, steps=2, warm_up=1))
    found = {batch: combined(times) for batch, times in taken.items()}
    reference = found[_REFERENCE]
    halves = [combined(taken[_REFERENCE][first::2]).schedule for first in (0, 1)]
    low, high = (found[batch] for batch in _ENDS)
    errors = [
        *(ready_error(found[batch].schedule, reference.schedule) for batch in _SHOWN),
        ready_error(as_stored(with_batches(low, [high]), _REFERENCE), reference.schedule),
    ]
    kept = stored(found)
    asked = [b for b in _BATCHES if b >= STEADY_BATCH and b not in kept.batches]
    missed = {b: ready_error(as_stored(kept, b), found[b].schedule) for b in asked}
    worst = max(missed, key=lambda batch: missed[batch])
    same = all(described(one) == described(reference) for times in taken.values() for one in times)
    cost = measure_overhead(runner, batches[_OVERHEAD_BATCH], pairs=pairs)
    return [
        job.name,
        str(len(described(reference))),
        *(f"{error * 100:.2f}" for error in errors),
        ", ".join(map(str, kept.batches)),
        f"{mean(missed.values()) * 100:.2f}",
        f"{missed[worst] * 100:.2f} ({worst})",
        f"{ready_error(*halves) * 100:.2f}",
        "yes" if same else "NO",
        f"{cost.fraction:+.2%} ± {cost.std:.2%}",
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--wall", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = find_device(arguments.device)
    if device.kind == "cpu" and not arguments.wall:
        device = CpuTimeDevice()
    print(f"{device.name}, torch {torch.__version__}, {arguments.rounds} rounds of 2 steps\n")
    heads = ["model", "gradients", *(f"{b} → {_REFERENCE}" for b in _SHOWN)]
    heads += [f"{_ENDS[0]} and {_ENDS[1]} → {_REFERENCE}", "stored", "→ unstored, mean", "worst"]
    heads += ["noise", "same order and sizes", "hooks"]
    print(f"| {' | '.join(heads)} |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for make in (mlp, cnn, vgg, residual, transformer):
        job = workload(make(), make.__name__)
        cells = row(job, device, arguments.rounds, arguments.pairs)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
