"""How well profiles are estimated for GPUs that nobody measured: leave one chip out.

    python -m benchmarks.estimates --data FOLDER [-o docs/results/estimates.md]

from the repository's root; FOLDER holds the public measurements. Every chip is held out in turn,
with all cards that carry it; the speed model, the efficiencies and the widths of the intervals are
fitted to the others alone, and each of its curves is estimated from the same workload's curves on
other chips, or, from layers, from none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.leave_one_chip_out import (
    BEYOND,
    Estimate,
    Judged,
    Say,
    Workloads,
    base_fractions,
    base_of,
    comparisons,
    from_layers,
    judge_layers,
    judge_scaling,
    layer_curves,
    refused,
    scaled,
    scaled_from_all,
    workloads_of,
)
from benchmarks.public_gpu_curves import CHIP, Curve, public_curves, timm_curves
from srifty.compute.efficiency import fit_efficiency
from srifty.compute.speed import fit_speed

_JUDGED = ("sia_pollux", "virtualflow_het", "sailor", "nvidia_dle")


def shipped(data: Path, say: Say) -> dict[str, float]:
    """Returns what the library's defaults must be: fitted to all chips, none held out."""
    curves = public_curves(data)
    workloads = workloads_of(curves)
    speed = fit_speed(comparisons(workloads, frozenset()))
    one, several = base_fractions(workloads, "", say)
    known = layer_curves([*curves, *timm_curves(data)])
    efficiency = fit_efficiency([steps for _, steps in known])
    scores: list[Estimate] = []
    for chip in sorted({CHIP[curve.gpu] for curve, _ in known}):
        say(f"layers without {chip}")
        without = fit_efficiency([s for c, s in known if CHIP[c.gpu] != chip])
        scores += [from_layers(c, s, without) for c, s in known if CHIP[c.gpu] == chip]
    return {
        "speed.flops": speed.flops,
        "speed.bandwidth": speed.bandwidth,
        "speed.tensor": speed.tensor,
        "one_gpu_base": one,
        "several_gpus_base": several,
        "efficiency.flops": efficiency.flops,
        "efficiency.tensor_flops": efficiency.tensor_flops,
        "efficiency.bandwidth": efficiency.bandwidth,
        "efficiency.launch_us": efficiency.launch_s * 1e6,
        "layers_fraction": base_of(scores),
    }


def _row(name: str, judged: Sequence[Judged]) -> str:
    errors = np.array([one.estimate.error for one in judged])
    inside = np.array([one.estimate.inside(one.fraction) for one in judged])
    widths = np.array([one.fraction for one in judged])
    return (
        f"| {name} | {len(judged)} | {100 * errors.mean():.1f} % | {100 * np.median(errors):.1f} % "
        f"| {100 * np.quantile(errors, 0.9):.0f} % | {100 * inside.mean():.0f} % "
        f"| ±{100 * widths.mean():.0f} % |"
    )


_HEAD = [
    "| curves | pairs | mean error | median | 9 of 10 below | inside | mean interval |",
    "|---|---|---|---|---|---|---|",
]


def _table(judged: Sequence[Judged], data_sets: Sequence[str], total: str) -> list[str]:
    of = {name: [j for j in judged if j.estimate.curve.data_set == name] for name in data_sets}
    rows = [_row(f"`{name}`", part) for name, part in of.items() if part]
    return [*_HEAD, *rows, _row(f"**{total}**", [j for part in of.values() for j in part])]


def page(data: Path, say: Say) -> str:
    """Returns the results as a Markdown page."""
    curves = public_curves(data)
    workloads = workloads_of(curves)
    scaling, speeds = judge_scaling(workloads, say)
    known = layer_curves([*curves, *timm_curves(data)])
    layers, efficiencies = judge_layers(known, say)
    bar = [one for one in scaling if one.estimate.curve.data_set in _JUDGED]
    chips = sorted({CHIP[one.estimate.curve.gpu] for one in scaling})
    everywhere = [
        estimate
        for chip in chips
        for estimate in _without_limit(workloads, chip)
        if estimate.curve.data_set in _JUDGED
    ]
    none = [curve for curve in refused(workloads) if curve.data_set in _JUDGED]
    plain = [_scaled_anyway(workloads, curve) for curve in none]
    with_plain = [one.estimate.error for one in bar] + [one.error for one in plain]
    worst = sorted(bar, key=lambda one: -one.estimate.error)[:12]
    return "\n".join(
        [
            "# Estimates for GPUs that nobody measured",
            "",
            "`python -m benchmarks.estimates --data FOLDER -o docs/results/estimates.md`",
            "",
            "A *pair* is one workload on one GPU. A pair's error is the mean of",
            "|estimated / measured - 1| over its batches; tables show means over pairs. *Inside*:",
            "the share of its batches within the stated 90 % interval, mean over pairs.",
            "",
            "**Held out**: one chip at a time with every card that carries it (V100 16 and 32 GB;",
            "A100 40 and 80 GB, PCIe and SXM; H100 and GH200; RTX 3090, A6000 and A10; ...): none",
            "of its curves is in the fit of the speed model, the efficiencies or the intervals;",
            "those come from the errors on the remaining chips, each held out once more.",
            "",
            "## From the same workload on other chips",
            "",
            f"Only batches at most {BEYOND} times beyond those measured elsewhere are estimated:",
            f"{_batches(one.estimate.true_s for one in bar)} of "
            f"{_batches(e.true_s for e in everywhere)}. {len(everywhere) - len(bar)} pairs have",
            "none, such as one batch of 4096 in accumulated steps against one of 256. With them",
            f"the mean error would be {100 * float(np.mean([e.error for e in everywhere])):.1f} %.",
            "",
            *_table(bar, _JUDGED, "all"),
            "",
            "`lambda_gpu_benchmarks` is no part of that bar; it helps to fit and stands apart:",
            "",
            *_table(scaling, ("lambda_gpu_benchmarks",), "all"),
            "",
            "By the chip that was held out, and what was fitted without it (exponents of peak",
            "operations and bandwidth, log gain of tensor cores; interval bases per unit of",
            "1 + distance):",
            "",
            *_HEAD,
            *(_row(c, [j for j in scaling if CHIP[j.estimate.curve.gpu] == c]) for c in chips),
            "",
            "| without | operations | bandwidth | tensor | base, one GPU | base, several |",
            "|---|---|---|---|---|---|",
            *(
                f"| {chip} | {s.flops:.2f} | {s.bandwidth:.2f} | {s.tensor:.2f} | {one:.3f} | "
                f"{several:.3f} |"
                for chip, s, one, several in speeds
            ),
            "",
            f"**Refused**: {len(none)} pairs, because on every other chip the step hardly grows",
            "with the batch (the host or the input rules). Had they been scaled all the same,",
            "their errors would be "
            + ", ".join(f"{100 * e.error:.0f} % ({e.curve.workload}, {e.curve.gpu})" for e in plain)
            + ",",
            f"and the mean over all pairs {100 * float(np.mean(with_plain)):.1f} %.",
            "",
            "The largest errors:",
            "",
            "| data set | workload | GPU | error | estimated / measured, first and last batch |",
            "|---|---|---|---|---|",
            *(
                f"| {e.curve.data_set} | {e.curve.workload} | {e.curve.gpu} | "
                f"{100 * e.error:.0f} % | {e.predicted_s[0] / e.true_s[0]:.2f}, "
                f"{e.predicted_s[-1] / e.true_s[-1]:.2f} |"
                for e in (one.estimate for one in worst)
            ),
            "",
            "## From layers alone",
            "",
            "No curve of the workload on any GPU is used; efficiencies are fitted without the",
            "held-out chip on other curves with known layers. timm has one batch per model on one",
            "GPU, so this is all that can be held out there.",
            "",
            *_table(layers, (*_JUDGED, "lambda_gpu_benchmarks", "timm"), "all"),
            "",
            "| without | fp32 operations | tensor cores | bandwidth | launch | interval |",
            "|---|---|---|---|---|---|",
            *(
                f"| {chip} | {100 * e.flops:.0f} % | {100 * e.tensor_flops:.0f} % | "
                f"{100 * e.bandwidth:.0f} % | {1e6 * e.launch_s:.0f} us | ±{100 * f:.0f} % |"
                for chip, e, f in efficiencies
            ),
            "",
        ]
    )


def _batches(times: Iterable[np.ndarray]) -> int:
    return sum(len(time_s) for time_s in times)


def _without_limit(workloads: Workloads, chip: str) -> list[Estimate]:
    hidden = frozenset({chip})
    speed = fit_speed(comparisons(workloads, hidden))
    return scaled_from_all(workloads, chip, hidden, speed, beyond=float("inf"))


def _scaled_anyway(workloads: Workloads, curve: Curve) -> Estimate:
    chip = CHIP[curve.gpu]
    on = workloads[curve.data_set, curve.workload]
    speed = fit_speed(comparisons(workloads, frozenset({chip})))
    found = scaled(curve, [other for other in on.values() if CHIP[other.gpu] != chip], speed)
    if found is None:
        raise AssertionError("a refused curve has no batch near the others")
    return found


def main() -> None:
    """Prints the page, or writes it; with `--shipped`, what the library's defaults must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--shipped", action="store_true", help="fit to all chips and print that")
    arguments = parser.parse_args()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if arguments.shipped:
        for name, value in shipped(arguments.data, say).items():
            print(f"{name}: {value:.4g}")
        return
    text = page(arguments.data, say)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
