"""The case study of Luo et al. 2022 (Figure 3) on the emulated cluster: 18 worlds, 7 allocations.

    python -m benchmarks.paper.case_study [--resume] [-o docs/results]

from the repository's root, as root, about ten minutes. Writes case_study.md, .csv and .svg. What was
found lies in build/paper/study; `--resume` goes on from there.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from zlib import crc32

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from benchmarks.paper.bed_jobs import G4DN_2XL, STUDY, Config, equal_split
from benchmarks.paper.bed_measure import Order, Probe, Say, learn, run_all
from benchmarks.paper.bed_plans import Planning
from benchmarks.paper.bed_runs import Run, read_runs
from benchmarks.paper.cases_measured import lacking
from benchmarks.paper.pages import RESULTS, made_by, percent, save, table, write
from benchmarks.paper.study import PROBES, Loss, bayesian, climb, curve, dips, means
from benchmarks.testbed.campaign import Files
from benchmarks.testbed.session import RunFailed
from benchmarks.testbed.variance import Pace, Variation, allocate
from benchmarks.testbed.variance_data import load_variation
from srifty.baselines import apm_of
from srifty.core.notation import parse_config
from srifty.simulator import ConfigTable

FloatArray = NDArray[np.float64]
ALLOCATIONS = 7
STARTS = 100
_SIZES = tuple(range(1, 19))
_PROBED_WORLDS, _PROBED_ALLOCATIONS = (2, 4, 8, 16), 3
_PROBE_S, _PROFILE_S = 6.0, 30.0
_ITERATIONS = 16
_WORK = Path("build/paper/study")
_NAME = "case_study"
_P90 = 1.2816


def configs() -> dict[int, Config]:
    """Returns the 18 configurations by their numbers of VMs."""
    return {n: equal_split(G4DN_2XL.name, n, STUDY.global_batch) for n in _SIZES}


def vms_of(variation: Variation, what: str) -> tuple[Pace, ...]:
    """Returns the VMs of one allocation; another name is another draw."""
    return allocate(variation, len(_SIZES), np.random.default_rng(crc32(what.encode())))


def job_name(allocation: int) -> str:
    """Returns what an allocation's runs are called."""
    return f"allocation {allocation + 1}"


def orders_of(variation: Variation, repeat: int) -> list[Order]:
    """Returns a run of every configuration on every allocation, the first n VMs of it."""
    return [
        Order(job_name(k), STUDY.model, config, repeat, vms_of(variation, job_name(k)), _ITERATIONS)
        for k in range(ALLOCATIONS)
        for config in configs().values()
    ]


def measure(files: Files, say: Say) -> None:
    """Learns, and runs what is not done yet; what was void once more.

    Raises:
        RunFailed: a probe or a profile failed.
    """
    variation = load_variation()
    probes = [
        Probe(G4DN_2XL, n, vms_of(variation, f"probe {k}"), f"probe-{n}-{k}")
        for k in range(_PROBED_ALLOCATIONS)
        for n in _PROBED_WORLDS
    ]
    wanted = [(STUDY.model, G4DN_2XL.gpu, STUDY.global_batch)]
    vms = vms_of(variation, "profile")
    learn(files, probes, wanted, vms, say, probe_s=_PROBE_S, profile_s=_PROFILE_S)
    run_all(files, orders_of(variation, 0), say)
    void = {run.key[:2] for run in read_runs(files.results) if run.verdict.void}
    again = [order for order in orders_of(variation, 1) if order.key[:2] in void]
    if again:
        say(f"{len(again)} runs are void: once more")
        run_all(files, again, say)


@dataclass(frozen=True)
class Study:
    """What was measured and forecast; seconds of an iteration by number of VMs.

    Attributes:
        allocations: measured, in order.
        void: (allocation, number of VMs) whose runs are all void; they are kept and said.
        apm_s: APM's forecast.
        srifty_s: Srifty's.
        spread_s: standard deviation of what does not average out, Srifty's.
    """

    allocations: tuple[dict[int, float], ...]
    void: tuple[tuple[int, int], ...]
    apm_s: dict[int, float]
    srifty_s: dict[int, float]
    spread_s: dict[int, float]


def measured(
    runs: Sequence[Run],
) -> tuple[tuple[dict[int, float], ...], tuple[tuple[int, int], ...]]:
    """Returns seconds by allocation and number of VMs, and which of them are void.

    Raises:
        ValueError: a configuration has no run that did not fail.
    """
    allocations: list[dict[int, float]] = []
    void: list[tuple[int, int]] = []
    for k in range(ALLOCATIONS):
        found: dict[int, float] = {}
        for n, config in configs().items():
            mine = [r for r in runs if r.key[:2] == (job_name(k), config.notation) and r.seconds]
            if not mine:
                raise ValueError(f"{job_name(k)}, {config.notation}: no run; --resume goes on")
            good = [run for run in mine if not run.verdict.void]
            if not good:
                void.append((k, n))
            found[n] = float(np.mean([run.mean_s for run in good or mine]))
        allocations.append(found)
    return tuple(allocations), tuple(void)


def study_of(files: Files) -> Study:
    """Returns what stands in the files."""
    planning = Planning.open(STUDY, files.profiles, files.store, files.folder, any_batch=True)
    bench = planning.bench
    offers = bench.catalog.offers
    each = [parse_config(config.notation, offers) for config in configs().values()]
    table_of = ConfigTable.from_configs(each)
    apm = apm_of(bench.job, offers, bench.simulator.allreduce).predict(bench.job, table_of)
    ours = bench.simulator.predict(bench.job, table_of)
    allocations, void = measured(read_runs(files.results))

    def by_size(values: FloatArray) -> dict[int, float]:
        return dict(zip(_SIZES, map(float, values), strict=True))

    return Study(
        allocations,
        void,
        by_size(apm.mean_s),
        by_size(ours.mean_s),
        by_size(ours.persistent_std_s),
    )


def fastest(seconds: Mapping[int, float]) -> int:
    """Returns the number of VMs with the shortest iteration."""
    return min(seconds, key=lambda n: seconds[n])


_HEAD = """\
# Case study: 18 worlds, 7 allocations

Figure 3 of Luo et al. 2022 (section 2.3) on the [emulated cluster](../testbed.md). **This tests the
mechanism, not any cloud.** ResNet-18 with a fixed global batch on 1 to 18 VMs; every configuration
was run on each of 7 allocations whose VMs differ as public measurements say that VMs do (pace and
link of each VM, noise of each step). Who forecasts or searches is judged on all seven.

**As in the paper**: one instance type (a T4 each), 18 configurations, 7 allocations, the same batch
on each VM but for one sample; APM; Bayesian optimisation that probes four times within the first
allocation; Srifty, which probed links and profiled one model before, on VMs of other draws.
**Not as in the paper**: 18 VMs at most instead of 60, each number of them instead of the divisors
of the batch; {batch} samples instead of 480, as our ResNet-18 is the one for small images; links
carry 12.8 Gbit/s in full-scale terms and, like what is sent, 1/32 of that here; what a GPU computes
is a wait; variance is injected; the search's belief is a Matérn process over log VMs.
"""


def page_lines(study: Study, plot: str) -> Iterator[str]:
    """Yields the page but for its last line."""
    yield from _HEAD.format(batch=STUDY.global_batch).splitlines()
    mean_s = means(study.allocations)
    best = fastest(mean_s)
    ranges = [
        max(one[n] for one in study.allocations) / min(one[n] for one in study.allocations)
        for n in _SIZES
    ]
    yield ""
    yield f"![Throughput by number of VMs]({plot})"
    yield ""
    yield (
        f"On the mean of the allocations {best} VMs are fastest ({_speed(mean_s[best])} samples/s); by "
        f"allocation, {', '.join(str(fastest(one)) for one in study.allocations)}. Allocations "
        f"differ by up to {max(ranges):.2f}x on one configuration."
    )
    yield ""
    yield "## Who chooses what"
    yield ""
    yield from _choices(study)
    yield ""
    yield "*slower*: throughput of each allocation's best configuration over the choice's; *dearer*:"
    yield "the choice's cost for an iteration over that of the best. Means and worst of allocations"
    yield f"(and, for searches, of {STARTS} starts). *forecast error*: mean over the 18 configurations"
    yield "of the absolute difference between forecast and measured mean; a search's is that of its"
    yield "process after four probes, mean of the starts."
    yield ""
    yield "## The concave prior"
    yield ""
    yield from _concave(study)
    yield ""
    yield "## What was measured"
    yield ""
    head = ("VMs", "batch", "APM, ms", "Srifty, ms", "P10 to P90", "measured mean", "least", "most")
    rows: list[tuple[object, ...]] = []
    for n in _SIZES:
        every = [one[n] for one in study.allocations]
        low, high = _range(study, n)
        rows.append(
            (n, _batches(n), _ms(study.apm_s[n]), _ms(study.srifty_s[n]),
             f"{_ms(low)} to {_ms(high)}", _ms(mean_s[n]), _ms(min(every)), _ms(max(every)))
        )  # fmt: skip
    yield from table(head, rows)
    yield ""
    inside = [
        _range(study, n)[0] <= one[n] <= _range(study, n)[1]
        for one in study.allocations
        for n in _SIZES
    ]
    below = [one[n] <= _range(study, n)[1] for one in study.allocations for n in _SIZES]
    yield (
        f"Of {len(inside)} runs {percent(sum(inside) / len(inside), 0)} lie between Srifty's P10 and "
        f"P90, {percent(sum(below) / len(below), 0)} below the P90. Every run: "
        "[case_study.csv](case_study.csv)."
    )
    if study.void:
        yield ""
        words = ", ".join(f"{n} VMs of allocation {k + 1}" for k, n in study.void)
        yield f"Void twice by the testbed's rules, and kept all the same: {words}."


def _choices(study: Study) -> Iterator[str]:
    mean_s = means(study.allocations)
    first = study.allocations[0]
    searches = [bayesian(first, seed=seed) for seed in range(STARTS)]
    prior = [bayesian(first, seed=seed, concave=True) for seed in range(STARTS)]
    beliefs = [_error(curve(first, one.probed), mean_s) for one in searches]
    rows = [
        _row("Srifty", [fastest(study.srifty_s)], study, _error(study.srifty_s, mean_s)),
        _row("APM", [fastest(study.apm_s)], study, _error(study.apm_s, mean_s)),
        _row(f"BO, {PROBES} probes", [s.choice for s in searches], study, float(np.mean(beliefs))),
        _row("BO, concave prior", [s.choice for s in prior], study, None),
        _row("best fixed choice", [fastest(mean_s)], study, None),
    ]
    head = (
        "approach",
        "VMs chosen",
        "slower, mean",
        "worst",
        "dearer, mean",
        "worst",
        "forecast error",
    )
    yield from table(head, rows, words=2)


def _row(
    name: str, choices: Sequence[int], study: Study, error: float | None
) -> tuple[object, ...]:
    loss = Loss.of(choices, study.allocations)
    some = sorted(set(choices))
    shown = str(some[0]) if len(some) == 1 else f"{some[0]} to {some[-1]}"
    return (
        name, shown, f"{loss.mean_slower:.3f}x", f"{loss.most_slower:.3f}x",
        f"{loss.mean_dearer:.2f}x", f"{loss.most_dearer:.2f}x",
        "" if error is None else percent(error),
    )  # fmt: skip


def _concave(study: Study) -> Iterator[str]:
    first = study.allocations[0]
    free = [bayesian(first, seed=seed) for seed in range(STARTS)]
    prior = [bayesian(first, seed=seed, concave=True) for seed in range(STARTS)]
    best = fastest(first)
    early = sum(one.early for one in prior)
    missed = sum(one.choice != best for one in prior)
    missed_free = sum(one.choice != best for one in free)
    yield (
        f"Throughput is not concave: in {sum(bool(dips(one)) for one in study.allocations)} of "
        f"{ALLOCATIONS} allocations it falls with more VMs and rises to a new best later on (at "
        f"{_worlds(study)} VMs): local batches come down in steps, and a VM with a slow link holds up all."
    )
    yield (
        f"In the first allocation {best} VMs are fastest. Of {STARTS} searches with the concave prior "
        f"{early} stop before {PROBES} probes, as the prior leaves nothing to look at, and {missed} miss "
        f"the best; without it {missed_free} miss it."
    )
    stops = [climb(one) for one in study.allocations]
    losses = [one[n] / one[fastest(one)] for n, one in zip(stops, study.allocations, strict=True)]
    yield (
        "Who adds VMs one by one as long as that makes it faster stops at "
        f"{', '.join(map(str, stops))} VMs, {np.mean(losses) - 1:.1%} slower than the best on the mean, "
        f"{max(losses) - 1:.1%} at worst."
    )


def _worlds(study: Study) -> str:
    found = sorted({n for one in study.allocations for n in dips(one)})
    return ", ".join(map(str, found)) or "no"


def _error(forecast: Mapping[int, float], mean_s: Mapping[int, float]) -> float:
    return float(np.mean([abs(forecast[n] / mean_s[n] - 1) for n in _SIZES]))


def _range(study: Study, n: int) -> tuple[float, float]:
    """Returns Srifty's P10 and P90 of an allocation's mean iteration."""
    return (
        study.srifty_s[n] - _P90 * study.spread_s[n],
        study.srifty_s[n] + _P90 * study.spread_s[n],
    )


def _batches(n: int) -> str:
    batches = sorted({b for _, _, b in configs()[n].groups})
    return " and ".join(map(str, batches))


def _speed(seconds: float) -> str:
    return f"{STUDY.global_batch / seconds:,.0f}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


def csv_text(runs: Sequence[Run]) -> str:
    """Returns every run as CSV."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    head = ["allocation", "config", "world_size", "repeat", "iterations", "mean_s", "least_s"]
    writer.writerow([*head, "most_s", "own_cores", "all_cores", "waited", "void"])
    sizes = {config.notation: n for n, config in configs().items()}
    for run in runs:
        seconds = run.seconds or (0.0,)
        writer.writerow(
            [
                run.job.removeprefix("allocation "),
                run.config,
                sizes[run.config],
                run.repeat + 1,
                len(run.seconds),
                f"{sum(seconds) / len(seconds):.6f}",
                f"{min(seconds):.6f}",
                f"{max(seconds):.6f}",
                f"{run.own_cores:.2f}",
                f"{run.all_cores:.2f}",
                f"{max(run.waited_s, default=0.0) / (sum(run.seconds) or 1.0):.3f}",
                " ".join(run.verdict.reasons),
            ]
        )
    return output.getvalue()


def plot(study: Study, path: Path) -> None:
    """Draws throughput by number of VMs: what was measured behind each approach's forecast."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True)
    batch = STUDY.global_batch
    low = [batch / max(one[n] for one in study.allocations) for n in _SIZES]
    high = [batch / min(one[n] for one in study.allocations) for n in _SIZES]
    middle = [batch / s for s in means(study.allocations).values()]
    for axis, title in zip(
        axes, ("APM", f"Bayesian optimisation, {PROBES} probes", "Srifty"), strict=True
    ):
        axis.fill_between(
            _SIZES, low, high, color="0.85", linewidth=0, label="measured, least to most"
        )
        axis.plot(_SIZES, middle, color="0.4", linewidth=1.2, label="measured, mean")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("VMs")
    axes[0].set_ylabel("samples/s")
    _forecast(axes[0], study.apm_s, "C0")
    first = study.allocations[0]
    search = bayesian(first, seed=0)
    _forecast(axes[1], curve(first, search.probed), "C2", choice=search.choice)
    axes[1].plot(
        search.probed, [batch / first[n] for n in search.probed], "x", color="C2", label="probes"
    )
    ours = study.srifty_s
    axes[2].fill_between(
        _SIZES, [batch / _range(study, n)[1] for n in _SIZES],
        [batch / max(_range(study, n)[0], 1e-9) for n in _SIZES],
        color="C3", alpha=0.15, linewidth=0, label="P10 to P90",
    )  # fmt: skip
    _forecast(axes[2], ours, "C3")
    for axis in axes:
        axis.legend(fontsize=6.5, frameon=False, loc="lower right")
        axis.set_ylim(bottom=0)
    figure.tight_layout()
    save(figure, path)


def _forecast(
    axis: plt.Axes, seconds: Mapping[int, float], color: str, choice: int | None = None
) -> None:
    speeds = [STUDY.global_batch / seconds[n] for n in _SIZES]
    axis.plot(_SIZES, speeds, color=color, linewidth=1.4, label="forecast")
    chosen = choice or fastest(seconds)
    axis.plot([chosen], [STUDY.global_batch / seconds[chosen]], "o", color=color, label="choice")


def publish(study: Study, files: Files, output: Path) -> None:
    """Writes page, table and plot."""
    output.mkdir(parents=True, exist_ok=True)
    (output / f"{_NAME}.csv").write_text(csv_text(read_runs(files.results)), encoding="utf-8")
    plot(study, output / f"{_NAME}.svg")
    last = made_by(f"python -m benchmarks.paper.{_NAME}")
    lines = [*page_lines(study, f"{_NAME}.svg"), ""]
    write(output / f"{_NAME}.md", [*lines, f"{last[:-2]}, torch {version('torch')}.*"])


def main() -> int:
    """Measures and writes the page; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    parser.add_argument("--work", type=Path, default=_WORK, help="folder for what is found")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder of the page")
    options = parser.parse_args()
    if missing := lacking():
        print("\n".join(missing), file=sys.stderr)
        return 2
    # A supervisor's SIGTERM takes the bed down as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    folder: Path = options.work.absolute()
    if not options.resume:
        shutil.rmtree(folder, ignore_errors=True)
    files = Files(folder)
    began_s = time.monotonic()

    def say(words: str) -> None:
        print(f"[{time.monotonic() - began_s:6.0f} s] {words}", file=sys.stderr, flush=True)

    try:
        measure(files, say)
    except KeyboardInterrupt:
        print(f"stopped; the same command with --resume goes on ({folder})", file=sys.stderr)
        return 130
    except RunFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    publish(study_of(files), files, options.output)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
