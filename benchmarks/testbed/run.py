"""`python -m benchmarks.testbed run`: the campaigns, and what they showed."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from benchmarks.testbed.campaign import Files, Plan, forecast_anew, run_campaign
from benchmarks.testbed.predict import SRIFTY
from benchmarks.testbed.report import csv_text, page_text
from benchmarks.testbed.results import Result, mape, read_results, write_results
from benchmarks.testbed.session import RunFailed
from benchmarks.testbed.sizes import full, short, smoke
from benchmarks.testbed.variance_data import load_variation

_WORK = Path("build/testbed")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `run`."""
    size = parser.add_mutually_exclusive_group()
    for name, words in (
        ("smoke", "four processes, two runs: under a minute"),
        ("short", "two networks, up to four ranks: under ten minutes (the default)"),
        ("full", "everything, injected variance included: under an hour"),
    ):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=words)
    parser.set_defaults(size="short")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    parser.add_argument(
        "--forecast-anew",
        action="store_true",
        help="with --resume: forecast again what was measured, after a change of the models",
    )
    parser.add_argument(
        "--retry-void", action="store_true", help="with --resume: measure void runs once more"
    )
    parser.add_argument("--steady-only", action="store_true", help="without injected variance")
    parser.add_argument("--work", type=Path, default=_WORK, help="folder for what is found")
    parser.add_argument("-o", "--output", type=Path, help="folder for testbed.md and testbed.csv")


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked; returns the exit code."""
    if find_spec("torch") is None:
        print('PyTorch is not installed: pip install "srifty[train]".', file=sys.stderr)
        return 2
    # A supervisor's SIGTERM takes the bed down as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    # Ranks read their tasks from here, wherever they run.
    folder: Path = arguments.work.absolute() / arguments.size
    if not arguments.resume:
        shutil.rmtree(folder, ignore_errors=True)
    variation = load_variation()
    if arguments.size == "full":
        campaigns = full(variation)
    else:
        campaigns = smoke() if arguments.size == "smoke" else short()
    began_s = time.monotonic()

    def say(words: str) -> None:
        print(f"[{time.monotonic() - began_s:6.0f} s] {words}", file=sys.stderr, flush=True)

    def carry_out(plan: Plan, files: Files) -> tuple[Result, ...]:
        if arguments.retry_void:
            kept = [result for result in read_results(files.results) if not result.void]
            write_results(files.results, kept)
        results = run_campaign(plan, files, say)
        return forecast_anew(plan, files) if arguments.forecast_anew else results

    try:
        results = carry_out(campaigns.steady, Files(folder / "steady"))
        if campaigns.varied is not None and not arguments.steady_only:
            results += carry_out(campaigns.varied, Files(folder / "varied"))
    except KeyboardInterrupt:
        print(f"stopped; the same command with --resume goes on ({folder})", file=sys.stderr)
        return 130
    except RunFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command = f"python -m benchmarks.testbed run --{arguments.size}"
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "testbed.csv").write_text(csv_text(results), encoding="utf-8")
        page = page_text(results, f"{command} -o docs/results", variation)
        (arguments.output / "testbed.md").write_text(page, encoding="utf-8")
    print(_summary(results))
    return 0


def _summary(results: tuple[Result, ...]) -> str:
    counted = [result for result in results if not result.void and not result.varied]
    void = sum(bool(result.void) for result in results)
    if not counted:
        return f"{len(results)} runs, all of them void"
    return (
        f"{len(results)} runs, {void} void; mean absolute error without injected variance: "
        f"{mape(counted, SRIFTY):.1%} of {len(counted)} runs"
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt
