"""Every figure and table of the paper, one after the other: `make reproduce`, `FULL=1` for all.

    python -m benchmarks.paper.reproduce [--full] [--only NAME ...] [--list] [-o build/reproduce]

from the repository's root. A step that needs what this machine lacks (public data, torch, root) is
skipped, and that is said. The short version ends within 20 minutes: what no longer fits is skipped
too. Pages and what the steps print are in the output folder; `-o docs/results` writes over the
pages that are published.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.testbed.preflight import preflight

_REPOSITORY = Path(__file__).resolve().parents[2]
_DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", _REPOSITORY.parent / "shared" / "data"))
_SHORT_MINUTES = 20.0
_STOPPED, _TOO_LONG = 130, 124
_CLEAN_UP_S = 60.0


@dataclass(frozen=True)
class Step:
    """One figure or table.

    Attributes:
        name: what `--only` calls it.
        about: which part of the paper it is.
        module: what is run, with `python -m`.
        options: its options; `{out}` is the output folder, `{data}` that of the public data.
        needs: of `data`, `torch`, `root`.
        minutes: how long it takes on two cores, about.
        page: the file that it writes; None: what it prints is kept as NAME.txt.
        full: whether only the long version has it.
    """

    name: str
    about: str
    module: str
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    minutes: float = 0.5
    page: str | None = None
    full: bool = False


def _public(name: str, about: str, page: str, minutes: float = 0.5, *more: str) -> Step:
    options = ("--data", "{data}", "-o", f"{{out}}/{page}", *more)
    return Step(name, about, f"benchmarks.paper.{name}", options, ("data",), minutes, page)


STEPS = (
    _public("variance", "Figures 1 and 2", "variance.md"),
    _public("figure3", "Figure 3, the case study", "figure3.md"),
    _public("table4", "Table 4", "table4.md"),
    _public("trust", "one figure to trust or not, regret", "trust.md", 1.0),
    _public("table5", "Table 5 and Figure 7", "table5.md", 1.0),
    _public("mixed", "mixed GPU types, measured by others", "mixed.md"),
    Step("cases", "cases 1 to 7 by the simulator, solver times", "benchmarks.paper.cases",
         ("-o", "{out}/paper_cases.md"), page="paper_cases.md", minutes=1.0),
    _public("allreduce", "allreduce accuracy, its floor, rated bandwidth", "paper_allreduce.md",
            2.0),
    Step("figure8", "Figure 8", "benchmarks.paper.figure8", needs=("torch",), minutes=5.0),
    Step("testbed", "forecasts against the emulated cluster, short", "benchmarks.testbed",
         ("run", "--short", "--work", "{out}/testbed", "-o", "{out}"), ("torch", "root"), 9.0,
         "testbed.md"),
    Step("cases-smoke", "cases 1 to 7 on the emulated cluster: two configurations",
         "benchmarks.paper.cases_measured", ("--smoke", "--work", "{out}/cases", "-o", "{out}"),
         ("torch", "root"), 1.5, "cases_measured.md"),
    Step("figure8-free", "Figure 8 without the order of preference", "benchmarks.paper.figure8",
         ("--without-prefer",), ("torch",), 5.0, full=True),
    Step("allreduce-full", "allreduce accuracy, whole world sizes left out",
         "benchmarks.paper.allreduce", ("--full", "--data", "{data}", "-o",
         "{out}/paper_allreduce.md"), ("data",), 12.0, "paper_allreduce.md", full=True),
    Step("iteration-times", "one cluster in detail: splits, terms, promises",
         "benchmarks.iteration_times",
         ("--data", "{data}/sia_pollux", "-o", "{out}/iteration_times.md"), ("data",), 5.0,
         "iteration_times.md", full=True),
    Step("latency-model", "Table 4's curves, interpolation beside", "benchmarks.latency_model",
         ("--data", "{data}", "-o", "{out}/latency_model.md"), ("data",), 0.5,
         "latency_model.md", full=True),
    Step("allreduce-accuracy", "allreduce accuracy by machine and split",
         "benchmarks.allreduce_accuracy", ("--data", "{data}/nccl-tests"), ("data",), 60.0,
         full=True),
    Step("rivals", "baselines on cases 1 to 7 and on random problems", "benchmarks.rivals",
         ("-o", "{out}/rivals.md"), page="rivals.md", minutes=8.0, full=True),
    Step("planner-speed", "configurations per second", "benchmarks.planner_speed", minutes=2.0,
         full=True),
    Step("planner-scale", "large spaces", "benchmarks.planner_scale",
         ("--svg", "{out}/planner_scale.svg"), minutes=15.0, full=True),
    Step("spot-replay", "policies on public spot traces", "benchmarks.spot_replay",
         ("--data", "{data}/spot", "-o", "{out}/spot_replay.md"), ("data",), 20.0,
         "spot_replay.md", full=True),
    Step("cases-measured", "cases 1 to 7, scaled, on the emulated cluster",
         "benchmarks.paper.cases_measured", ("-o", "{out}"), ("torch", "root"), 75.0,
         "cases_measured.md", full=True),
    Step("case-study", "the case study on the emulated cluster", "benchmarks.paper.case_study",
         ("-o", "{out}"), ("torch", "root"), 25.0, "case_study.md", full=True),
    Step("testbed-full", "forecasts against the emulated cluster, all of it",
         "benchmarks.testbed",
         ("run", "--full", "--work", "{out}/testbed-full", "-o", "{out}"), ("torch", "root"), 60.0,
         "testbed.md", full=True),
)  # fmt: skip
# What the long version does better.
_REPLACED = {
    "allreduce": "allreduce-full", "testbed": "testbed-full", "cases-smoke": "cases-measured",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        step: the step.
        said: `done`, `FAILED` or why it was skipped.
        seconds: how long it took.
        ok: False where it failed.
    """

    step: Step
    said: str
    seconds: float = 0.0
    ok: bool = True


def chosen(*, full: bool, only: Sequence[str]) -> list[Step]:
    """Returns the steps of a version, or those named.

    Raises:
        ValueError: there is no such step.
    """
    names = {step.name: step for step in STEPS}
    if unknown := [name for name in only if name not in names]:
        raise ValueError(f"no step is called {', '.join(unknown)}; there are {', '.join(names)}")
    if only:
        return [names[name] for name in only]
    if full:
        return [step for step in STEPS if step.name not in _REPLACED]
    return [step for step in STEPS if not step.full]


def lacking(data: Path = _DATA) -> dict[str, str]:
    """Returns what steps may need and this machine lacks, with a sentence each."""
    found: dict[str, str] = {}
    if not data.is_dir():
        found["data"] = f"no public data in {data}; SRIFTY_PUBLIC_DATA names their folder"
    if importlib.util.find_spec("torch") is None:
        found["torch"] = 'torch is not installed: pip install -e ".[train]"'
    if missing := preflight():
        found["root"] = " ".join(missing)
    return found


Run = Callable[[Sequence[str], Path, float | None], int]


def run_step(command: Sequence[str], log: Path, limit_s: float | None) -> int:
    """Runs a command, its output in a file; returns the exit code, 124 where it took too long."""
    variables = {**os.environ, "SRIFTY_PUBLIC_DATA": str(_DATA)}
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, cwd=_REPOSITORY, stdout=file, stderr=subprocess.STDOUT, env=variables
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return _TOO_LONG
        finally:  # after Ctrl-C, too, which the command heard as well
            _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Waits for a command that was told to stop to clean up, and kills it where it does not."""
    try:
        process.wait(_CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def reproduce(
    steps: Sequence[Step],
    output: Path,
    missing: dict[str, str],
    *,
    minutes: float | None,
    run: Run = run_step,
    now: Callable[[], float] = time.monotonic,
) -> list[Outcome]:
    """Runs steps in order and says what comes of each.

    Args:
        steps: what to run.
        output: the folder of pages and logs; made where it is missing.
        missing: what this machine lacks, by need.
        minutes: what all together may take; None: as long as it takes.
        run: runs one command.
        now: the clock, seconds.
    """
    output.mkdir(parents=True, exist_ok=True)
    places = {"out": str(output.resolve()), "data": str(_DATA)}
    began = now()
    outcomes: list[Outcome] = []
    for step in steps:
        wants = next((missing[need] for need in step.needs if need in missing), None)
        left = None if minutes is None else minutes - (now() - began) / 60
        if wants is not None:
            outcome = Outcome(step, f"skipped: {wants}")
        elif left is not None and left < step.minutes:
            outcome = Outcome(
                step, f"skipped: takes {step.minutes:g} minutes, {max(left, 0):.0f} are left"
            )
        else:
            print(f"{step.name}: {step.about} (about {step.minutes:g} min) ...", flush=True)
            log = output / f"{step.name}.txt"
            command = [sys.executable, "-m", step.module,
                       *(option.format(**places) for option in step.options)]  # fmt: skip
            started = now()
            code = run(command, log, None if left is None else left * 60)
            said = "done" if code == 0 else f"FAILED with {code}: {_last_line(log)}"
            outcome = Outcome(step, said, now() - started, ok=code == 0)
        print(f"{step.name}: {outcome.said}", flush=True)
        outcomes.append(outcome)
    return outcomes


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8").strip().splitlines() if log.is_file() else []
    return lines[-1] if lines else "it said nothing"


def summary(outcomes: Sequence[Outcome], output: Path) -> str:
    """Returns a line per step: how long, where the page is, or why not."""
    lines = [""]
    for one in outcomes:
        where = str(output / (one.step.page or f"{one.step.name}.txt"))
        what = f"{one.seconds / 60:5.1f} min  {where}" if one.said == "done" else one.said
        lines.append(f"{one.step.name:<20}{one.step.about:<50}{what}")
    done = sum(one.said == "done" for one in outcomes)
    failed = sum(not one.ok for one in outcomes)
    skipped = len(outcomes) - done - failed
    lines.append(f"\n{done} done, {skipped} skipped, {failed} failed")
    return "\n".join(lines)


def main() -> int:
    """Runs the steps; returns the exit code: 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all of it: hours")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/reproduce"))
    options = parser.parse_args()
    try:
        steps = chosen(full=options.full, only=options.only)
    except ValueError as error:
        parser.error(str(error))
    missing = lacking()
    if options.list:
        for step in steps:
            needs = f" needs {', '.join(step.needs)}" if step.needs else ""
            print(f"{step.name:<20}{step.minutes:5.1f} min  {step.about}{needs}")
        print("\n".join(missing.values()))
        return 0
    limit = None if options.full or options.only else _SHORT_MINUTES
    try:
        outcomes = reproduce(steps, options.output, missing, minutes=limit)
    except KeyboardInterrupt:
        print("stopped; what was written so far is kept", file=sys.stderr)
        return _STOPPED
    print(summary(outcomes, options.output))
    return 0 if all(one.ok for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
