"""Figure 8 of Luo et al. 2022, run on this machine: `python -m benchmarks.paper.figure8`.

Real processes, gradients, checkpoints, at the pace of the GPUs of the paper, on a clock that runs
twice as fast; what the cloud does is in `paper/figure8.scenario.yaml`, the job in `figure8.yaml`.
Beside the timeline stands the paper's, and whether the final parameters are those of a training
that nobody disturbed. `--without-prefer` leaves the choice of types to the planner. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_SCRIPT = _HERE / "figure8_train.py"
# Seconds since the command, from the paper's section 5.4.
_PAPER = {
    "VMs run": 138.0,
    "one is cancelled": 222.0,
    "it is noticed": 223.0,
    "new VMs are asked for": 227.0,
    "they run": 322.0,
    "training ends": 419.0,
}


def main() -> None:
    """Runs both trainings and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-prefer", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the run's folder there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        alone = _train_alone(folder)
        run, final = _run(folder, without_prefer=chosen.without_prefer)
    _show(run)
    difference = max(abs(a - b) for a, b in zip(alone, final, strict=True))
    largest = max(map(abs, alone))
    print(f"\nfinal parameters: largest difference to an undisturbed training {difference:.1e} "
          f"(largest parameter {largest:.2f})")  # fmt: skip


def _train_alone(folder: Path) -> list[float]:
    """Returns the parameters after the same training by one process, undisturbed."""
    final = folder / "alone.json"
    subprocess.run(
        [sys.executable, str(_SCRIPT)], check=True, env={**os.environ, "FIGURE8_FINAL": str(final)}
    )
    return json.loads(final.read_text(encoding="utf-8"))


def _run(folder: Path, *, without_prefer: bool) -> tuple[dict[str, Any], list[float]]:
    """Returns the run's report, and the parameters that it ended with."""
    final = folder / "run.json"
    variables = {**os.environ, "FIGURE8_FINAL": str(final), "SRIFTY_RUNS": str(folder / "runs")}
    changes = ["--set", "offers.prefer=[]"] if without_prefer else []
    command = [
        *(sys.executable, "-m", "srifty", "run", "--yes", "--json", "--play-gpus"),
        *("--launcher", "preloaded", "--scenario", str(_HERE / "figure8.scenario.yaml")),
        *(*changes, str(_HERE / "figure8.yaml"), "--", str(_SCRIPT)),
    ]
    ended = subprocess.run(command, check=False, env=variables, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"the run ended with {ended.returncode}: {ended.stdout}")
    return json.loads(ended.stdout), json.loads(final.read_text(encoding="utf-8"))


def _show(run: dict[str, Any]) -> None:
    ours = _timeline(run)
    print(f"{'':24}{'paper':>10}{'here':>10}")
    for what, paper_s in _PAPER.items():
        here = f"{ours[what]:8.1f} s" if what in ours else "-"
        print(f"{what:24}{paper_s:8.0f} s{here:>10}")
    print()
    for world in run["worlds"]:
        print(f"{world['at_s']:8.1f} s  {world['config']} from iteration {world['from_iteration']}")
    forecast = run["forecasts"][0]
    print(f"\nforecast {forecast['time_s']['mean']:.0f} s, {forecast['cost_usd']['mean']:.2f} USD "
          f"in total; came {run['at_s']:.0f} s, {run['spent_usd_total']:.2f} USD in total "
          f"(deadline {run['deadline_s']:.0f} s)")  # fmt: skip


def _timeline(run: dict[str, Any]) -> dict[str, float]:
    """Returns when what the paper tells of happened here, in seconds since the command."""
    launched = [e["at_s"] for e in run["events"] if e["kind"] == "launched"]
    lost_s = next(e["at_s"] for e in run["events"] if e["kind"] == "preempted")
    later = [at_s for at_s in launched if at_s > lost_s]
    after = [d["at_s"] for d in run["decisions"] if d["kind"] == "move" and d["at_s"] >= lost_s]
    found = {
        "VMs run": max(at_s for at_s in launched if at_s < lost_s),
        "one is cancelled": lost_s,
        "training ends": run["at_s"],
    }
    if after:
        found["it is noticed"] = found["new VMs are asked for"] = after[0]
    if later:
        found["they run"] = max(later)
    return found


if __name__ == "__main__":
    main()
