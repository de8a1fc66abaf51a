"""Cases 1 to 7 of Luo et al. 2022, scaled to the emulated cluster, every configuration measured.

    python -m benchmarks.paper.cases_measured [--cases 4 1 3] [--resume] [-o docs/results]

from the repository's root, as root, over an hour. Writes cases_measured.md, .csv and .svg.
What was found lies in build/paper/cases; `--resume` goes on from there, and with all done writes
the page anew. `--smoke` runs two configurations: a minute.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from benchmarks.paper.bed_jobs import CASES, G3, KINDS, BedCase, Config, configs_of
from benchmarks.paper.bed_measure import STEADY, Order, Probe, Say, learn, run_all
from benchmarks.paper.bed_page import REPEATS, csv_text, job_name, page_lines, plot
from benchmarks.paper.bed_plans import OURS_ANY, OURS_POWERS, Chosen, Planning
from benchmarks.paper.bed_runs import drop_void, measurements, read_runs
from benchmarks.paper.bed_verdict import Found, wanted
from benchmarks.paper.pages import RESULTS, made_by, write
from benchmarks.testbed.campaign import Files
from benchmarks.testbed.preflight import preflight
from benchmarks.testbed.session import RunFailed

_WORK = Path("build/paper/cases")
_PROBE_S, _PROFILE_S = 12.0, 120.0
_ORACLE_STARTS = 20
_NAME = "cases_measured"


def probes_of(cases: Sequence[BedCase]) -> tuple[Probe, ...]:
    """Returns the probes that cases need: each type, at powers of two of VMs."""
    most: dict[str, int] = {}
    for case in cases:
        together = sum(count for _, count in case.quota)
        for kind, _ in case.quota:
            # Mixed clusters ask for the slowest type's bandwidth in a world of all types.
            most[kind] = max(most.get(kind, 0), together)
    return tuple(
        Probe(KINDS[kind], n, (STEADY,) * n, f"{kind}-{n}")
        for kind in KINDS
        if kind in most
        for n in (2, 4, 8, 16)
        if n < 2 * most[kind]
    )


def profiles_of(cases: Sequence[BedCase]) -> tuple[tuple[str, str, int], ...]:
    """Returns the profiles that cases need: (model, GPU, largest batch)."""
    return tuple(
        (case.model, KINDS[kind].gpu, min(case.most(kind), case.global_batch))
        for case in cases
        for kind, _ in case.quota
    )


def choose(case: BedCase, files: Files) -> tuple[Planning, tuple[Chosen, ...]]:
    """Returns what all methods choose but Oracle BO, from probes and profiles."""

    def opened(*, any_batch: bool) -> Planning:
        return Planning.open(case, files.profiles, files.store, files.folder, any_batch=any_batch)

    planning = opened(any_batch=case.any_batch)
    other = opened(any_batch=not case.any_batch)
    name = OURS_POWERS if case.any_batch else OURS_ANY
    return planning, (planning.ours(), other.ours(name), *planning.rivals())


def orders_of(case: BedCase, configs: Sequence[Config], repeats: int) -> list[Order]:
    """Returns the repeats that are wanted: one of each configuration, then the next of each."""
    return [
        Order(job_name(case), case.model, config, repeat, (STEADY,) * config.world_size)
        for repeat in range(repeats)
        for config in configs
    ]


def found_of(case: BedCase, planning: Planning, chosen: Sequence[Chosen], files: Files) -> Found:
    """Returns a case with what was measured of it; Oracle BO chooses now."""
    configs = configs_of(case)
    everything = wanted(configs, chosen)
    by_notation = measurements(read_runs(files.results), job_name(case))
    measured = {c: by_notation[c.notation] for c in everything if c.notation in by_notation}
    known_s = {c: m.mean_s for c, m in measured.items() if not m.void and c in configs}
    starts = [planning.oracle_bo(known_s, seed) for seed in range(_ORACLE_STARTS)]
    values = tuple(
        case.value(known_s[one.config], one.config.usd_per_hour)
        for one in starts
        if one.config is not None
    )
    forecasts = planning.forecast_s(everything)
    return Found(
        case,
        configs,
        measured,
        dict(zip(everything, forecasts, strict=True)),
        (*chosen, starts[0]),
        values,
    )


def measure(cases: Sequence[BedCase], files: Files, say: Say) -> list[Found]:
    """Learns, plans and runs cases, one after the other; returns what was found.

    Args:
        cases: in the order in which they are run.
        files: where; what stands there is not done again.
        say: told of each step.

    Raises:
        RunFailed: a probe or a profile failed.
    """
    learn(
        files,
        probes_of(cases),
        profiles_of(cases),
        (STEADY,) * 4,
        say,
        probe_s=_PROBE_S,
        profile_s=_PROFILE_S,
    )
    found: list[Found] = []
    for case in cases:
        planning, chosen = choose(case, files)
        configs = wanted(configs_of(case), chosen)
        say(f"case {case.number}, {case.title}: {len(configs)} configurations")
        run_all(files, orders_of(case, configs, REPEATS), say)
        found.append(found_of(case, planning, chosen, files))
    return found


def told(cases: Sequence[BedCase], files: Files) -> list[Found]:
    """Returns what was found of those cases of which anything was measured; runs nothing."""
    measured = {run.job for run in read_runs(files.results)}
    found: list[Found] = []
    for case in cases:
        if job_name(case) in measured:
            planning, chosen = choose(case, files)
            found.append(found_of(case, planning, chosen, files))
    return found


def smoke(files: Files, say: Say) -> list[Found]:
    """Learns and runs the two smallest worlds of case 4: nothing to publish."""
    case = next(case for case in CASES if case.model == "dlrm")
    learn(
        files,
        [
            Probe(kind, 2, (STEADY,) * 2, f"{name}-2")
            for name, kind in KINDS.items()
            if name == "g3"
        ],
        [(case.model, KINDS[kind].gpu, case.global_batch) for kind, _ in case.quota],
        (STEADY,) * 4,
        say,
        probe_s=4.0,
        profile_s=4.0,
        spreads=False,
    )
    configs = [c for c in configs_of(case) if {kind for kind, _, _ in c.groups} == {G3.name}][:2]
    run_all(files, orders_of(case, configs, 2), say)
    planning = Planning.open(case, files.profiles, files.store, files.folder, any_batch=False)
    return [found_of(case, planning, (planning.ours(),), files)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, nargs="+", help="the paper's numbers; left out: all")
    parser.add_argument("--smoke", action="store_true", help="two configurations: a minute")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    parser.add_argument(
        "--retry-void", action="store_true", help="with --resume: measure void ones once more"
    )
    parser.add_argument(
        "--page-only", action="store_true", help="run nothing: a page of what was measured"
    )
    parser.add_argument("--work", type=Path, default=_WORK, help="folder for what is found")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder of the page")
    options = parser.parse_args()
    known = {case.number for case in CASES}
    if options.cases and not set(options.cases) <= known:
        parser.error(f"there are cases {', '.join(map(str, sorted(known)))}")
    return options


def main() -> int:
    """Measures and writes the page; returns the exit code."""
    options = _options()
    cases = [case for case in CASES if not options.cases or case.number in options.cases]
    if options.page_only:
        files = Files(options.work.absolute() / "all")
        publish(told(cases, files), files, options.output)
        return 0
    if missing := lacking():
        print("\n".join(missing), file=sys.stderr)
        return 2
    # A supervisor's SIGTERM takes the bed down as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    folder: Path = options.work.absolute() / ("smoke" if options.smoke else "all")
    if not options.resume:
        shutil.rmtree(folder, ignore_errors=True)
    files = Files(folder)
    if options.retry_void:
        drop_void(files.results)
    began_s = time.monotonic()

    def say(words: str) -> None:
        print(f"[{time.monotonic() - began_s:6.0f} s] {words}", file=sys.stderr, flush=True)

    try:
        found = smoke(files, say) if options.smoke else measure(cases, files, say)
    except KeyboardInterrupt:
        print(f"stopped; the same command with --resume goes on ({folder})", file=sys.stderr)
        return 130
    except RunFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    publish(found, files, options.output)
    return 0


def publish(found: Sequence[Found], files: Files, output: Path) -> None:
    """Writes page, table and plot."""
    found = sorted(found, key=lambda one: one.case.number)
    output.mkdir(parents=True, exist_ok=True)
    runs = read_runs(files.results)
    (output / f"{_NAME}.csv").write_text(csv_text(found, runs), encoding="utf-8")
    plot(found, output / f"{_NAME}.svg")
    last = made_by(f"python -m benchmarks.paper.{_NAME}")
    lines = page_lines(found, f"{_NAME}.svg")
    write(output / f"{_NAME}.md", [*lines, f"{last[:-2]}, torch {version('torch')}.*"])


def lacking() -> list[str]:
    """Returns what this machine lacks for a bed with ranks; a sentence each."""
    missing = preflight()
    if find_spec("torch") is None:
        missing.append('PyTorch is not installed: pip install "srifty[train]".')
    return missing


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
