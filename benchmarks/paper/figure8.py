"""Figure 8 of Luo et al. 2022, run on this machine: `python -m benchmarks.paper.figure8`.

Real processes, gradients, checkpoints, at the pace of the GPUs of the paper, on a clock that may
run faster; what the cloud does is in `figure8.scenario.yaml`, the job in `figure8.yaml`. Beside the
timeline stands the paper's, and whether the final parameters are those of a training that nobody
disturbed. `--without-prefer` leaves the choice of types to the planner. Each needs torch, and takes
four minutes on a clock twice as fast, on which start-ups take twice as long too. `--keep FOLDER`
keeps the run there; `--page FOLDER FOLDER` prints two that were kept as a page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from srifty.control.ledger import Ledger

HERE = Path(__file__).parent
JOB = HERE / "figure8.yaml"
_SCENARIO = HERE / "figure8.scenario.yaml"
_SCRIPT = HERE / "figure8_train.py"
_ITERATIONS = 400
# Seconds since the command, from the paper's section 5.4.
PAPER_S = {
    "the VMs run": 138.0,
    "one is cancelled": 222.0,
    "that is noticed": 223.0,
    "new VMs are asked for": 227.0,
    "they run": 322.0,
    "the last iteration is made": 419.0,
}


def main() -> None:
    """Runs both trainings and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-prefer", action="store_true")
    parser.add_argument("--clock-factor", type=float, default=2.0, help="1: in real time")
    parser.add_argument("--keep", type=Path, help="keep the run's folder there")
    parser.add_argument("--page", type=Path, nargs=2, help="print runs that were kept")
    chosen = parser.parse_args()
    if chosen.page:
        print(page(*(json.loads((kept / "result.json").read_text()) for kept in chosen.page)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = (chosen.keep or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        alone = _train_alone(folder)
        result = _run(
            folder, alone, factor=chosen.clock_factor, without_prefer=chosen.without_prefer
        )
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    print("\n".join([*_rows(result["timeline"]), "", *_facts(result)]))


def _train_alone(folder: Path) -> list[float]:
    """Returns the parameters after the same training by one process, undisturbed."""
    final = folder / "alone.json"
    subprocess.run(
        [sys.executable, str(_SCRIPT)], check=True, env={**os.environ, "FIGURE8_FINAL": str(final)}
    )
    return json.loads(final.read_text(encoding="utf-8"))


def _run(
    folder: Path, alone: Sequence[float], *, factor: float, without_prefer: bool
) -> dict[str, Any]:
    """Returns what came of the run, with its timeline."""
    final, scenario = folder / "run.json", folder / "scenario.yaml"
    played = _SCENARIO.read_text(encoding="utf-8")
    scenario.write_text(f"{played}clock_factor: {factor}\n", encoding="utf-8")
    variables = {**os.environ, "FIGURE8_FINAL": str(final), "SRIFTY_RUNS": str(folder / "runs")}
    changes = ["--set", "offers.prefer=[]"] if without_prefer else []
    command = [
        *(sys.executable, "-m", "srifty", "run", "--yes", "--json", "--play-gpus"),
        *("--launcher", "preloaded", "--scenario", str(scenario)),
        *(*changes, str(JOB), "--", str(_SCRIPT)),
    ]
    ended = subprocess.run(command, check=False, env=variables, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"the run ended with {ended.returncode}: {ended.stdout}")
    said = json.loads(ended.stdout)
    parameters = json.loads(final.read_text(encoding="utf-8"))
    forecast = said["forecasts"][0]
    return {
        "prefers": not without_prefer,
        "clock_factor": factor,
        "timeline": timeline(folder / "runs" / said["run"]),
        "worlds": said["worlds"],
        "forecast_s": forecast["time_s"]["mean"],
        "forecast_usd_total": forecast["cost_usd"]["mean"],
        "at_s": said["at_s"],
        "deadline_s": said["deadline_s"],
        "spent_usd_total": said["spent_usd_total"],
        "difference": max(abs(a - b) for a, b in zip(alone, parameters, strict=True)),
        "largest": max(map(abs, alone)),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, torch {version('torch')}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def timeline(run: Path) -> dict[str, float]:
    """Returns when what the paper tells of happened in a run, in seconds since the command.

    Args:
        run: the run's folder.
    """
    with Ledger.read(run / "ledger.db") as ledger:
        record, events, steps = ledger.run(), ledger.events(), ledger.steps()
    launched_s = [event.at_s for event in events if event.kind == "launched"]
    lost_s = next(event.at_s for event in events if event.kind == "preempted")
    later = [step for step in steps if step.begun_s >= lost_s]
    lines = (run / "vms" / "progress" / "worker-00000.jsonl").read_text(encoding="utf-8")
    last_unix_s = max(
        line["at"]
        for line in map(json.loads, lines.splitlines())
        if line.get("step") == _ITERATIONS - 1
    )
    return {
        "the VMs run": max(at_s for at_s in launched_s if at_s < lost_s),
        "one is cancelled": lost_s,
        "that is noticed": next(step.begun_s for step in later if step.kind == "end-world"),
        "new VMs are asked for": next(step.begun_s for step in later if step.kind == "launch"),
        "they run": max(launched_s),
        "the last iteration is made": (last_unix_s - record.began_unix_s) * record.clock_factor,
        "all is saved and released": record.ended_s or float("nan"),
    }


def page(preferring: Mapping[str, Any], free: Mapping[str, Any]) -> str:
    """Returns both runs, in Markdown."""
    lines = ["| seconds since the command | paper | with `prefer` | without |", "|---|---|---|---|"]
    for what, at_s in preferring["timeline"].items():
        paper = f"{PAPER_S[what]:.0f}" if what in PAPER_S else ""
        lines.append(f"| {what} | {paper} | {at_s:.1f} | {free['timeline'][what]:.1f} |")
    for result in (preferring, free):
        lines += ["", f"**{'With' if result['prefers'] else 'Without'} `prefer`.**", ""]
        lines += [f"- {fact}" for fact in _facts(result)]
    return "\n".join(lines)


def _rows(ours: Mapping[str, float]) -> list[str]:
    """Returns the timeline, the paper's beside it."""
    rows = [f"{'':28}{'paper':>8}{'here':>10}"]
    for what, at_s in ours.items():
        paper = f"{PAPER_S[what]:.0f} s" if what in PAPER_S else ""
        rows.append(f"{what:28}{paper:>8}{at_s:8.1f} s")
    return rows


def _facts(result: Mapping[str, Any]) -> list[str]:
    """Returns what came of a run, a line for each thing."""
    return [
        *(
            f"{world['at_s']:.1f} s: {world['config']} from iteration {world['from_iteration']}"
            for world in result["worlds"]
        ),
        f"forecast for the first plan, undisturbed: {result['forecast_s']:.0f} s, "
        f"{result['forecast_usd_total']:.2f} USD in total; came {result['at_s']:.0f} s, "
        f"{result['spent_usd_total']:.2f} USD in total (deadline {result['deadline_s']:.0f} s)",
        f"final parameters: largest difference to an undisturbed training by one process "
        f"{result['difference']:.1e}, largest parameter {result['largest']:.2f}",
        f"clock factor {result['clock_factor']:g}; {result['machine']}; {result['date']}",
    ]


def _processor() -> str:
    """Returns the processor's name, where the system tells it."""
    said = Path("/proc/cpuinfo")
    lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
