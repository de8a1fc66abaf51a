"""How well four probes predict public single-GPU latency curves.

    python -m benchmarks.latency_model --data FOLDER [-o docs/results/latency_model.md]

from the repository's root; FOLDER holds the public measurements (`sia_pollux`, `virtualflow_het`,
`sailor`). Four probes nearest a geometric grid, errors on the other sizes (held out), curves with
at least six sizes. Beside our model stand plain interpolation through the same probes and one line
by relative least squares (what Nexus and APM use).
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from srifty.compute.evaluation import CurveScore, evaluate_curve, summarise

_PROBES = 4
_LEAST_SIZES = 6
Curves = dict[str, dict[int, float]]


def _rows(data: Path, name: str) -> Iterator[dict[str, str]]:
    with (data / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def sia_curves(data: Path) -> Curves:
    """Returns the one-GPU rows of Sia/Pollux: iteration seconds."""
    curves: Curves = defaultdict(dict)
    for row in _rows(data, "sia_pollux/step_times.csv"):
        if row["table"] == "placements" and row["num_replicas"] == "1":
            name = f"{row['model']} {row['gpu']} ({row['cluster']})"
            curves[name][int(row["local_bsz"])] = float(row["step_time"])
    return curves


def virtualflow_curves(data: Path) -> Curves:
    """Returns VirtualFlow's curves, powers of two; the transformer's batch is tokens: left out."""
    curves: Curves = defaultdict(dict)
    for row in _rows(data, "virtualflow_het/single_gpu_batch_profiles.csv"):
        batch = int(row["batch_size"])
        if row["workload"] != "transformer" and batch & (batch - 1) == 0:
            curves[f"{row['workload']} {row['gpu']}"][batch] = float(row["step_ms"]) / 1e3
    return curves


def sailor_curves(data: Path) -> Curves:
    """Returns Sailor's layer times, summed over a model's layers; forward and backward apart."""
    curves: Curves = defaultdict(lambda: defaultdict(float))
    for row in _rows(data, "sailor/layer_profiles.csv"):
        for part, column in (("forward", "fwd_s"), ("backward", "bwd_s")):
            name = f"{row['model']} {row['gpu']} tp{row['tp']} {part}"
            curves[name][int(row["mbs"])] += float(row[column])
    return curves


def score(curves: Curves) -> dict[str, CurveScore]:
    """Returns the scores of the curves with enough sizes."""
    return {
        name: evaluate_curve(
            sorted(curve), [curve[batch] for batch in sorted(curve)], probes=_PROBES
        )
        for name, curve in curves.items()
        if len(curve) >= _LEAST_SIZES
    }


def page(data: Path) -> str:
    """Returns the results as a Markdown page."""
    lines = [
        "# Latency from four probes",
        "",
        "`python -m benchmarks.latency_model --data FOLDER -o docs/results/latency_model.md`",
        "",
        "Public curves with at least six batch sizes: single GPUs, and Sailor's layers also split",
        "over several by tensor parallelism (`tp`). Four probes nearest a geometric",
        "grid; mean absolute percentage error on the sizes that were **not** probed.",
        "*Interpolation* is plain linear interpolation through the same probes, *line* one line by",
        "relative least squares. The constants of our model were chosen with these curves in view",
        "(their origin is stated beside each in `src/srifty/compute/`), so read small differences",
        "with care; the floor rule was prompted by the K80 curve.",
        "",
    ]
    sources = (
        ("Sia/Pollux, one GPU, iteration", sia_curves),
        ("VirtualFlow, powers of two, iteration", virtualflow_curves),
        ("Sailor, summed layers, forward and backward", sailor_curves),
    )
    for title, read in sources:
        scores = score(read(data))
        summary = summarise(scores.values())
        lines += [
            f"## {title}",
            "",
            "| curve | probes | Srifty | interpolation | line |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {name} | {', '.join(f'{b:g}' for b in s.probes)} | {s.model_percent:.2f} % | "
            f"{s.interpolation_percent:.2f} % | {s.line_percent:.2f} % |"
            for name, s in scores.items()
        ]
        lines += [
            f"| **mean** | | **{summary.model_mean_percent:.2f} %** | "
            f"{summary.interpolation_mean_percent:.2f} % | {summary.line_mean_percent:.2f} % |",
            f"| **median** | | **{summary.model_median_percent:.2f} %** | "
            f"{summary.interpolation_median_percent:.2f} % | {summary.line_median_percent:.2f} % |",
            "",
            f"Better than interpolation on {summary.wins}, worse on {summary.losses} of "
            f"{summary.curves} curves, by {max(summary.worst_loss_points, 0):.2f} points at worst.",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    """Prints the page, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    text = page(arguments.data)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
