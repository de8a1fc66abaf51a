"""How well the closed forms of lost VMs agree with jobs that are played out, and public loss rates.

    python -m benchmarks.spot_losses [--data ../shared/data/spot] [-o FILE.md]

from the repository's root. The played jobs lose each VM by itself, at random moments; nothing in
them is a formula (`tests/simulator/interrupted_job.py`). Public rates: VMs that disappeared per
hour that VMs ran, in logs of spot clusters that others kept.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.builders import make_config, make_job, make_offer, make_type
from tests.simulator.interrupted_job import play

from srifty.core import Market, Overheads
from srifty.core.interruptions import InterruptionRate
from srifty.simulator import ConfigTable, ForecastTable, JobTable, forecast_jobs

_ITERATIONS = 3600  # of one second each
# Losses per VM-hour, VMs, iterations between two checkpoints.
_CASES = (
    (0.02, 4, 600),
    (0.1, 16, 600),
    (0.3, 8, 300),
    (1.0, 4, 100),
    (2.0, 1, 300),
    (0.05, 8, None),
)
_USD_PER_HOUR = 1.2


def forecast(rate: float, vms: int, overheads: Overheads) -> JobTable:
    """Returns the forecast of a job of an hour on VMs that can be lost."""
    offer = replace(
        make_offer(make_type(), _USD_PER_HOUR, Market.SPOT), interruptions=InterruptionRate(rate)
    )
    table = ConfigTable.from_configs([make_config((offer, vms, 64 // vms))])
    values = {name: np.zeros(1) for name in ForecastTable.__dataclass_fields__}
    iterations = ForecastTable(**values | {"mean_s": np.ones(1)})
    job = make_job(iterations=_ITERATIONS, overheads=overheads)
    return forecast_jobs(job, table, iterations)


def agreement(runs: int) -> list[str]:
    """Returns a table of forecasts against played jobs."""
    lines = [
        "| losses per VM-hour | VMs | checkpoint every | losses a run | mean time | std | "
        "mean bill | P50 holds | P90 holds | P95 holds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for rate, vms, every in _CASES:
        overheads = Overheads(
            launch_s=120.0,
            setup_s=60.0,
            restore_s=10.0,
            detection_s=20.0,
            checkpoint_every=every,
            checkpoint_s=5.0 if every else 0.0,
        )
        table = forecast(rate, vms, overheads)
        length = every or _ITERATIONS
        stretch = (length + overheads.checkpoint_s, 70.0)
        stretches = [(60.0, 60.0), *[stretch] * (_ITERATIONS // length)]
        played = play(vms, rate / 3600, stretches, 140.0, runs, seed=5)
        time_s = played.time_s + overheads.launch_s
        usd = played.billed_vm_s.mean() * _USD_PER_HOUR / 3600
        off = (
            table.time_mean_s[0] / time_s.mean() - 1,
            table.time_std_s[0] / time_s.std() - 1,
            table.cost_mean_usd[0] / usd - 1,
        )
        holds = [
            (time_s <= table.time_quantile_s(p)[0] * (1 + 1e-12)).mean() for p in (0.5, 0.9, 0.95)
        ]
        lines.append(
            f"| {rate} | {vms} | {f'{every} s' if every else 'never'} | "
            f"{played.losses.mean():.2f} | "
            + " | ".join([f"{x:+.1%}" for x in off] + [f"{x:.1%}" for x in holds])
            + " |"
        )
    return lines


def public_rates(folder: Path) -> list[str]:
    """Returns a table of the rates at which VMs of public logs disappeared."""
    lines = ["| log | VM-hours | disappeared | per VM-hour |", "|---|---|---|---|"]
    hours: dict[str, float] = defaultdict(float)
    lost: dict[str, int] = defaultdict(int)
    up: dict[tuple[str, str], float] = {}
    last: dict[str, float] = {}
    with (folder / "bamboo_node_events.csv").open(encoding="utf-8") as file:
        for row in sorted(csv.DictReader(file), key=lambda r: (r["trace"], float(r["time_ms"]))):
            name, at_h = f"bamboo {row['trace']} 2020", float(row["time_ms"]) / 3.6e6
            last[name] = at_h
            if row["event"] == "add":
                up[name, row["node"]] = at_h
            elif (name, row["node"]) in up:
                hours[name] += at_h - up.pop((name, row["node"]))
                lost[name] += 1
    for (name, _), since_h in up.items():
        hours[name] += last[name] - since_h
    before: dict[tuple[str, ...], int] = {}
    with (folder / "skypilot_spot_traces_rle.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["kind"] != "preemption":
                continue
            name = f"SkyPilot {row['device']} {row['zone']}, {row['nodes']} VM(s)"
            key, held = (name, row["collection"]), int(row["available"])
            hours[name] += held * int(row["ticks"]) * float(row["gap_seconds"]) / 3600
            lost[name] += max(before.get(key, 0) - held, 0)
            before[key] = held
    for name, ran_h in hours.items():
        rate = lost[name] / ran_h
        lines.append(f"| {name} | {ran_h:.0f} | {lost[name]} | {rate:.2g} |")
    return lines


def main() -> None:
    """Prints or writes both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/spot"))
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    lines = [
        "# Lost spot VMs: forecasts against played jobs",
        "",
        "`python -m benchmarks.spot_losses`",
        "",
        f"A job of one hour without losses, {arguments.runs:,} runs a line; a recovery takes",
        "210 s. Forecast against runs, and the share of runs that end within forecast quantiles.",
        "Where few runs lose a VM, most end at the same moment, which is then several quantiles.",
        "",
        *agreement(arguments.runs),
        "",
        "## What public logs show",
        "",
        *(
            public_rates(arguments.data)
            if arguments.data.is_dir()
            else [f"(no data in {arguments.data})"]
        ),
        "",
        "Bamboo's and SkyPilot's authors chose types and zones where VMs are scarce; a VM that",
        "disappeared may also have been let go.",
    ]
    text = "\n".join(lines) + "\n"
    if arguments.output is None:
        print(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
