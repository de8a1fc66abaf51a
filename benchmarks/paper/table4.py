"""Table 4 of Luo et al. 2022 on public data: computation from four probes.

    python -m benchmarks.paper.table4 [--data ../shared/data] [-o docs/results/table4.md]

from the repository's root, seconds. As in the paper each model sees four batch sizes of a curve;
APM's is one line through them. Errors are over all sizes, which is how the paper words it, and
over those that were not probed, which is what a forecast meets.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.latency_model import Curves, sailor_curves, sia_curves, virtualflow_curves
from benchmarks.paper.pages import DATA, RESULTS, made_by, table, write
from benchmarks.paper.public_runs import read
from srifty.compute.evaluation import CurveScore, evaluate_curve

_PROBES = 4
_LEAST_SIZES = 5


@dataclass(frozen=True)
class Part:
    """The curves of one pass and one source.

    Attributes:
        what: `forward`, `backward` or `iteration`.
        source: the data folder.
        scores: by curve, over the sizes that were not probed and over all.
    """

    what: str
    source: str
    scores: Mapping[str, tuple[CurveScore, CurveScore]]


def gavel_curves(data: Path) -> Curves:
    """Returns Gavel's one-GPU curves of its own cluster: iteration seconds."""
    curves: Curves = defaultdict(dict)
    for row in read(data / "gavel_shockwave" / "throughputs_isolated.csv"):
        if row["source_file"] == "gavel_physical_cluster" and row["scale_factor"] == "1":
            batch = int(float(row["batch_size_per_gpu"] or 0))
            if batch and float(row["iter_time_s"] or 0) > 0 and "_" not in row["worker_type"]:
                name = f"{row['model']} {row['worker_type'].upper()}"
                curves[name][batch] = float(row["iter_time_s"])
    return curves


def parts(data: Path) -> list[Part]:
    """Returns all curves with at least five sizes, scored."""
    layers = sailor_curves(data)
    sources = [
        (what, "sailor", {k.rpartition(" ")[0]: v for k, v in layers.items() if k.endswith(what)})
        for what in ("forward", "backward")
    ]
    sources += [
        ("iteration", "sia_pollux", sia_curves(data)),
        ("iteration", "virtualflow_het", virtualflow_curves(data)),
        ("iteration", "gavel_shockwave", gavel_curves(data)),
    ]
    return [Part(what, source, _scores(curves)) for what, source, curves in sources]


def _scores(curves: Curves) -> dict[str, tuple[CurveScore, CurveScore]]:
    found: dict[str, tuple[CurveScore, CurveScore]] = {}
    for name, curve in curves.items():
        if len(curve) >= _LEAST_SIZES:
            sizes = sorted(curve)
            times = [curve[size] for size in sizes]
            found[name] = (
                evaluate_curve(sizes, times, probes=_PROBES),
                evaluate_curve(sizes, times, probes=_PROBES, errors="all"),
            )
    return found


def page(data: Path) -> list[str]:
    """Returns the page's lines."""
    listed = parts(data)
    lines = [
        "# Computation from four probes",
        "",
        "Table 4 of Luo et al. 2022, on curves that others published. MAPE, mean over curves.",
        "*Line* is APM's model: one line in the batch size, here the best in relative error.",
        "",
    ]
    rows = [
        ("forward", "the paper's", "", "6.4 %", "12.5 %", "", ""),
        ("backward", "the paper's", "", "5.9 %", "9.4 %", "", ""),
        ("iteration", "the paper's", "", "4.5 %", "8.5 %", "", ""),
        *(_summary(part.what, part.source, [*part.scores.values()]) for part in listed),
    ]
    whole = [s for part in listed if part.what == "iteration" for s in part.scores.values()]
    rows.append(_summary("iteration", "all three", whole))
    head = (
        "what",
        "curves of",
        "curves",
        "all sizes: srifty",
        "line",
        "not probed: srifty",
        "line",
    )
    lines += [
        *table(head, sorted(rows, key=lambda row: "fbi".index(row[0][0])), words=2),
        "",
        "**The same**: four batch sizes, whatever the model; APM's line through the same four.",
        "**Not the same**: other GPUs and models; few public sources time forward and backward",
        "apart, so that those two rows rest on transformer layers on two GPU types, timed in",
        "isolation and split over GPUs. The probes lie nearest a geometric grid, ends included;",
        "where the paper's lie is not said. With five sizes, as in Gavel, one is left to be",
        "forecast; those curves are noisy. The model's constants were chosen with `sia_pollux`,",
        "`virtualflow_het` and `sailor` in view, not with `gavel_shockwave`.",
        "Real kernels on this machine's CPU: [profile_accuracy.md](profile_accuracy.md); every",
        "curve, and interpolation beside it: [latency_model.md](latency_model.md).",
        "",
        "## Every curve, sizes that were not probed",
        "",
    ]
    curves = [
        (part.what, part.source, name, ", ".join(f"{batch:g}" for batch in held.probes),
         held.evaluated, f"{held.model_percent:.1f} %", f"{held.line_percent:.1f} %")
        for part in listed
        for name, (held, _) in part.scores.items()
    ]  # fmt: skip
    head = ("what", "source", "curve", "probes", "forecast sizes", "srifty", "line")
    return [*lines, *table(head, curves, words=4), ""]


def _summary(
    what: str, source: str, scores: list[tuple[CurveScore, CurveScore]]
) -> tuple[str, str, str, str, str, str, str]:
    figures = [
        f"{np.mean([getattr(pair[which], name) for pair in scores]):.1f} %"
        for which in (1, 0)
        for name in ("model_percent", "line_percent")
    ]
    return (what, f"`{source}`" if "_" in source or source == "sailor" else source,
            str(len(scores)), figures[0], figures[1], figures[2], figures[3])  # fmt: skip


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "table4.md")
    options = parser.parse_args()
    write(options.output, [*page(options.data), made_by("python -m benchmarks.paper.table4")])


if __name__ == "__main__":
    main()
