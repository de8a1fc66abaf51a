"""How well the four batch sizes that a profile times predict all others, on four models.

    python -m benchmarks.profile_accuracy [--quick] [--clock wall] [-o FILE.md]

from the repository's root; needs torch. One thread. Every size of a grid is measured in rounds,
each once for A and once for B. Fits see A only; errors are taken over the sizes of B that the fit
did not see (mean absolute percentage error). Beside the placed probes stand four evenly spread by
ratio, the best four in hindsight (all sets of four are tried), one line by
relative least squares (what APM uses) and the noise floor: A against B.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.profile_models import FACTORIES
from srifty.compute.fit import fit_latency
from srifty.profiling.device import CpuDevice, Mark
from srifty.profiling.placement import Predict, candidate_sizes, geometric_probes, place_probes
from srifty.profiling.scouting import scout, steps_of_a_look
from srifty.profiling.steps import StepRunner
from srifty.profiling.timing import Stopwatch

Floats = NDArray[np.float64]
Curves = dict[str, Floats]

_PROBES = 4
_CURVES = ("forward", "backward", "both")
# Beside the sizes that are scouted, some that lie between them.
_BETWEEN = {"dlrm": (48, 192, 768)}
_MOST = {"dlrm": 1024}
# Disturbances only ever add time: the lower quartile forgets them and still averages.
_QUANTILE = 25


class _CpuTime(CpuDevice):
    """The CPU, by the time that this process was given: other programs do not count."""

    def clock(self) -> Mark:
        return time.process_time()

    def host_s(self) -> float:
        return time.process_time()


@dataclass(frozen=True)
class Score:
    """Errors of one model in percent, each of (forward, backward, both).

    Attributes:
        model: its name.
        probes: the sizes that were placed.
        floor: A against B.
        placed: the fit through the placed probes.
        even: the fit through evenly spread ones.
        best: of the set of four with the least mean of the three errors.
        best_probes: that set.
        each: the least of all sets of four, for each figure its own.
        line: one line through the evenly spread ones.
    """

    model: str
    probes: tuple[int, ...]
    floor: Floats
    placed: Floats
    even: Floats
    best: Floats
    best_probes: tuple[int, ...]
    each: Floats
    line: Floats


def fit(batches: Sequence[int], latencies_s: Sequence[float]) -> Predict:
    """Returns the latency model's curve."""
    return fit_latency(batches, latencies_s).predict


def line(batches: Sequence[int], latencies_s: Sequence[float]) -> Predict:
    """Returns one line by relative least squares."""
    size, seen_s = np.asarray(batches, dtype=float), np.asarray(latencies_s)
    rows = np.column_stack((1 / seen_s, size / seen_s))
    intercept, slope = np.linalg.lstsq(rows, np.ones(len(size)), rcond=None)[0]
    return lambda at: intercept + slope * at


def score(name: str, device: CpuDevice, rounds: int, most: int) -> Score:
    """Returns the errors of one model."""
    torch.manual_seed(0)
    stopwatch = Stopwatch(StepRunner(FACTORIES[name](), device))
    scale = _MOST.get(name, 64) * most // 64
    candidates = candidate_sizes(1, scale)
    between = [size for size in _BETWEEN.get(name, (10, 40)) if size < scale]
    sizes = sorted({*candidates, *between})
    stopwatch.warm_up(sizes[0])
    # The sizes between run as well, unseen by the placement: from what lies in the heap glibc
    # decides which memory to give back after each step, and so how long steps of *all* sizes take.
    seen = [[one for one in each if one.batch in candidates] for each in scout(stopwatch, sizes)]
    placed = place_probes(seen, _PROBES, fit).batches
    # As many steps in a row as in scouting: the first ones after another size are slower.
    steps = {
        size: steps_of_a_look(min(one.step_s for one in stopwatch.chunk(size, 2).times))
        for size in sizes
    }
    timed: tuple[list[Any], list[Any]] = ([], [])
    for _, half, size in itertools.product(range(rounds), range(2), sizes):
        timed[half].extend((size, one) for one in stopwatch.chunk(size, steps[size]).times)
    shown, truth = (_curves(sizes, half) for half in timed)

    def errors(chosen: Sequence[int], model: Any) -> Floats:
        at = [sizes.index(size) for size in chosen]
        others = np.setdiff1d(np.arange(len(sizes)), at)
        where = np.array(sizes, dtype=float)[others]
        return np.array(
            [
                _percent(model(chosen, shown[c][at].tolist())(where), truth[c][others])
                for c in _CURVES
            ]
        )

    sets = list(itertools.combinations(sizes, _PROBES))
    all_errors = np.array([errors(chosen, fit) for chosen in sets])
    best = int(all_errors.mean(axis=1).argmin())
    even = geometric_probes(sizes, _PROBES)
    return Score(
        model=name,
        probes=placed,
        floor=np.array([_percent(shown[c], truth[c]) for c in _CURVES]),
        placed=errors(placed, fit),
        even=errors(even, fit),
        best=all_errors[best],
        best_probes=sets[best],
        each=all_errors.min(axis=0),
        line=errors(even, line),
    )


def page(scores: Sequence[Score], clock: str, rounds: int, seconds: float) -> str:
    """Returns the results as a Markdown page."""
    lines = [
        "# Latency from four placed probes",
        "",
        "`python -m benchmarks.profile_accuracy -o docs/results/profile_accuracy.md`",
        "",
        f"{CpuDevice().name}, one thread, torch {torch.__version__}; {rounds} rounds,",
        f"lower quartile, {_CLOCKS[clock]};",
        f"{seconds:.0f} s in all. Errors in percent on the batch sizes that a fit did not see:",
        "*forward / backward / both*. *Placed*: what `srifty profile`",
        "times after running 11 to 14 sizes for a few steps each; *even*: spread evenly by ratio;",
        "*best*: of all sets of four the one that is best in hindsight, by the mean of the three",
        "errors; *each*: the least that any set of four reaches, each figure with its own set;",
        "*line*: one line (APM); *floor*: one measurement of the same sizes against the other.",
        "",
        "The sizes that placement does not see run beside those it does, from the start: which",
        "memory glibc gives back to the system after a step depends on all that lies in the heap,",
        "and steps that must take it back are up to 40 % slower (vgg, batch 32). Scouted in",
        "another heap than the one it is timed in, a curve jumps elsewhere.",
        "",
        "| model | placed at | best at | placed | even | best | each | line | floor "
        "| placed − best |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in scores:
        cells = [one.placed, one.even, one.best, one.each, one.line, one.floor]
        cells.append(one.placed - one.best)
        shown = " | ".join(" / ".join(f"{value:.1f}" for value in cell) for cell in cells)
        sets = (", ".join(map(str, chosen)) for chosen in (one.probes, one.best_probes))
        lines.append(f"| {one.model} | {' | '.join(sets)} | {shown} |")
    over = max(float((one.placed - one.best).max()) for one in scores)
    step = max(float((one.placed - one.best)[2]) for one in scores)
    lines += [
        "",
        f"At worst {step:.1f} points above the best four for a step, {over:.1f} for forward or "
        "backward alone (2 is the bar).",
        "",
    ]
    return "\n".join(lines)


_CLOCKS = {
    "cpu": "the process's CPU time (other programs ran on the machine)",
    "wall": "wall time",
}


def _curves(sizes: Sequence[int], seen: Sequence[Any]) -> Curves:
    values: dict[str, list[float]] = {name: [] for name in _CURVES}
    for size in sizes:
        times = [one for batch, one in seen if batch == size]
        forward_s, backward_s = (
            np.array([getattr(one, part) for one in times]) for part in ("forward_s", "backward_s")
        )
        for name, value in zip(
            _CURVES, (forward_s, backward_s, forward_s + backward_s), strict=True
        ):
            values[name].append(float(np.percentile(value, _QUANTILE)))
    return {name: np.array(value) for name, value in values.items()}


def _percent(predicted: Floats, truth: Floats) -> float:
    return 100 * float(np.mean(np.abs(predicted / truth - 1)))


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clock", choices=sorted(_CLOCKS), default="cpu")
    parser.add_argument("--models", nargs="*", default=list(FACTORIES), choices=list(FACTORIES))
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = _CpuTime() if arguments.clock == "cpu" else CpuDevice()
    rounds, most = (2, 16) if arguments.quick else (arguments.rounds, 64)
    began_s = time.perf_counter()
    scores: list[Score] = []
    for name in arguments.models:
        scores.append(score(name, device, rounds, most))
        print(scores[-1], f"{time.perf_counter() - began_s:.0f} s", file=sys.stderr, flush=True)
    text = page(scores, arguments.clock, rounds, time.perf_counter() - began_s)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
