"""The case study of Luo et al. 2022 (Figure 3) on the emulated cluster: 18 worlds, 7 allocations.

    python -m benchmarks.paper.case_study [--resume] [-o docs/results]

from the repository's root, as root, about 25 minutes. Writes case_study.md, .csv and .svg. What
was found lies in build/paper/study; `--resume` goes on from there.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.bed_jobs import G4DN_2XL, STUDY
from benchmarks.paper.bed_measure import Order, Probe, Say, learn, run_all
from benchmarks.paper.bed_plans import Planning
from benchmarks.paper.bed_runs import Run, read_runs
from benchmarks.paper.cases_measured import lacking
from benchmarks.paper.pages import RESULTS, made_by, write
from benchmarks.paper.study_page import SIZES, Study, configs, page_lines, plot
from benchmarks.testbed.campaign import Files
from benchmarks.testbed.session import RunFailed
from benchmarks.testbed.variance import Pace, Variation, allocate
from benchmarks.testbed.variance_data import load_variation
from srifty.baselines import apm_of
from srifty.core.notation import parse_config
from srifty.simulator import ConfigTable

FloatArray = NDArray[np.float64]
ALLOCATIONS = 7
_PROBED_WORLDS, _PROBED_ALLOCATIONS = (2, 4, 8, 16), 4
_PROBE_S, _PROFILE_S = 12.0, 60.0
_ITERATIONS = 6
_WORK = Path("build/paper/study")
_NAME = "case_study"


def vms_of(variation: Variation, what: str) -> tuple[Pace, ...]:
    """Returns the VMs of one allocation; another name is another draw."""
    return allocate(variation, len(SIZES), np.random.default_rng(crc32(what.encode())))


def job_name(allocation: int) -> str:
    """Returns what an allocation's runs are called."""
    return f"allocation {allocation + 1}"


def orders_of(variation: Variation, repeat: int) -> list[Order]:
    """Returns a run of every configuration on every allocation, on any n VMs of it."""
    return [
        Order(job_name(k), STUDY.model, config, repeat, some_of(variation, k, n), _ITERATIONS)
        for k in range(ALLOCATIONS)
        for n, config in configs().items()
    ]


def some_of(variation: Variation, allocation: int, count: int) -> tuple[Pace, ...]:
    """Returns the VMs of an allocation that a configuration gets: drawn, always the same."""
    vms = vms_of(variation, f"VMs of {job_name(allocation)}")
    rng = np.random.default_rng(crc32(f"{allocation}, {count} VMs".encode()))
    return tuple(vms[at] for at in rng.permutation(len(vms))[:count])


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


def measured(
    runs: Sequence[Run],
) -> tuple[tuple[dict[int, float], ...], tuple[tuple[int, int], ...]]:
    """Returns seconds by allocation and number of VMs, and which of them are void.

    An allocation on which a configuration has no run is left out.

    Raises:
        ValueError: none is left.
    """
    allocations: list[dict[int, float]] = []
    void: list[tuple[int, int]] = []
    for k in range(ALLOCATIONS):
        found: dict[int, float] = {}
        for n, config in configs().items():
            mine = [r for r in runs if r.key[:2] == (job_name(k), config.notation) and r.seconds]
            if not mine:
                break
            good = [run for run in mine if not run.verdict.void]
            if not good:
                void.append((k, n))
            found[n] = float(np.mean([run.mean_s for run in good or mine]))
        if len(found) == len(SIZES):
            allocations.append(found)
    if not allocations:
        raise ValueError("no allocation was run to its end; --resume goes on")
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
        return dict(zip(SIZES, map(float, values), strict=True))

    return Study(
        allocations,
        void,
        by_size(apm.mean_s),
        by_size(ours.mean_s),
        by_size(ours.persistent_std_s),
    )


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
    parser.add_argument(
        "--page-only", action="store_true", help="run nothing: a page of what was measured"
    )
    parser.add_argument("--work", type=Path, default=_WORK, help="folder for what is found")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder of the page")
    options = parser.parse_args()
    if options.page_only:
        files = Files(options.work.absolute())
        publish(study_of(files), files, options.output)
        return 0
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
