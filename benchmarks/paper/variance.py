"""Figures 1 and 2 of Luo et al. 2022 on public data: how much VMs and their network differ.

    python -m benchmarks.paper.variance [--data ../shared/data] [-o docs/results/variance.md]

from the repository's root, seconds on one core.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.pages import DATA, RESULTS, made_by, percent, plt, save, table, write
from benchmarks.paper.public_runs import read

FloatArray = NDArray[np.float64]

_SMALL, _LARGE = 1024, 256 << 20
_FEWEST = 4
# pagerank is a constant there and no training.
_NO_TRAINING = "pagerank"


@dataclass(frozen=True)
class Spread:
    """How much repeated measurements of one thing differ.

    Attributes:
        name: what was measured.
        values: (N,) a mean each; lower or higher may be better, only ratios count.
    """

    name: str
    values: FloatArray

    @property
    def ratio(self) -> float:
        """The largest over the smallest."""
        return float(self.values.max() / self.values.min())

    @property
    def central_ratio(self) -> float:
        """The 95th percentile over the 5th: what a few broken ones do not decide."""
        low, high = np.quantile(self.values, [0.05, 0.95])
        return float(high / low)

    @property
    def deviation(self) -> float:
        """The standard deviation over the mean."""
        return float(self.values.std(ddof=1) / self.values.mean())


def _spreads(groups: Mapping[str, Sequence[float]]) -> list[Spread]:
    return [
        Spread(name, np.array(values)) for name, values in groups.items() if len(values) >= _FEWEST
    ]


def allreduce_spreads(data: Path) -> dict[int, list[Spread]]:
    """Returns by message size the spread of each repeated allreduce, a value per run."""
    found: dict[int, dict[str, list[float]]] = {
        _SMALL: defaultdict(list),
        _LARGE: defaultdict(list),
    }
    for row in read(data / "nccl-tests" / "allreduce.csv"):
        size = int(row["size_bytes"])
        if row["instance_type"] == "n1-standard-4+1xV100" and row["inplace"] == "0":
            name = f"GCP, {row['nodes']} VMs of 1 V100, TCP"
            for near in found:
                if size == near:
                    found[near][name].append(float(row["time_us"]))
    for row in read(data / "other-allreduce" / "osu_allreduce_cloud.csv"):
        if row["kind"] == "gpu" and int(row["size_bytes"]) == _SMALL:
            variant = f", {row['variant']}" if row["variant"] else ""
            where = f"{row['env']}, {row['nodes']} x {row['instance_type']}{variant}"
            found[_SMALL][f"{where} (MPI)"].append(float(row["avg_latency_us"]))
    for row in read(data / "variance" / "aws_p3dn_2019_busbw_runs.csv"):
        if row["network"] in ("efa", "old") and row["nodes"] == "2":
            network = "EFA" if row["network"] == "efa" else "TCP"
            found[_LARGE][f"AWS, 2 x p3dn.24xlarge, {network}, all zones and weeks"].append(
                float(row["busbw_256MiB_gbit_s"])
            )
    return {size: _spreads(groups) for size, groups in found.items()}


def gpu_spreads(data: Path) -> list[Spread]:
    """Returns the spread between GPUs of a cluster, a value per GPU (its median)."""
    repeats: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in read(data / "variance" / "gpu_variability.csv"):
        if row["workload"] != _NO_TRAINING:
            repeats[row["dataset"], row["gpu_idx"]].append(float(row["perf"]))
    groups: dict[str, list[float]] = defaultdict(list)
    for (name, _), values in repeats.items():
        groups[f"{name} (own machines)"].append(float(np.median(values)))
    for row in read(data / "lambda_gpu_benchmarks" / "resnet50_amp_h100_per_iteration.csv"):
        repeats[f"H100 x {row['gpus']}", row["vm"]].append(float(row["iter_ms"]))
    for (name, _), values in repeats.items():
        if name in ("H100 x 1", "H100 x 8"):
            groups[f"cloud VMs, {name}, ResNet-50"].append(float(np.mean(values)))
    return _spreads(groups)


def temporal(data: Path) -> list[Spread]:
    """Returns the spread of the iterations of one VM, for the VM with the most of them."""
    runs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in read(data / "lambda_gpu_benchmarks" / "resnet50_amp_h100_per_iteration.csv"):
        runs[row["gpus"], row["vm"], row["run"]].append(float(row["iter_ms"]))
    found: list[Spread] = []
    for gpus in ("1", "8"):
        own = {key: values for key, values in runs.items() if key[0] == gpus}
        values = max(own.values(), key=len)
        found.append(Spread(f"cloud VM, H100 x {gpus}, ResNet-50", np.array(values)))
    return found


def within_runs(data: Path) -> FloatArray:
    """Returns P95 over P5 of the iterations of each single-GPU run."""
    ratios = [
        float(row["iter_ms_p95"]) / float(row["iter_ms_p5"])
        for row in read(
            data / "lambda_gpu_benchmarks" / "resnet50_iteration_time_summary.csv"
        )
        if row["gpus"] == "1"
    ]  # fmt: skip
    return np.array(ratios)


def draw(
    network: Mapping[int, Sequence[Spread]],
    gpus: Sequence[Spread],
    times: Sequence[Spread],
    path: Path,
) -> None:
    """Draws allreduces by world over their median (top), GPUs and iterations (below)."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for place, (size, words) in enumerate(((_SMALL, "1 KiB"), (_LARGE, "256 MiB"))):
        own = [one for one in network[size] if one.name.startswith("GCP")]
        for at, one in enumerate(own):
            relative = one.values / np.median(one.values)
            axes[0, place].plot([at] * len(relative), relative, "o", ms=4, alpha=0.7)
        worlds = [one.name.split()[1] for one in own]
        axes[0, place].set_xticks(range(len(own)), worlds)
        axes[0, place].set(
            title=f"allreduce of {words}, GCP V100, a dot per run", xlabel="VMs",
            ylabel="time over the median",
        )  # fmt: skip
    for one in gpus:
        relative = one.values / np.median(one.values)
        axes[1, 0].hist(
            np.clip(relative, 0.8, 1.4), bins=60, range=(0.8, 1.4), histtype="step", density=True,
            label=f"{one.name.replace(' (own machines)', '')} ({len(relative)})",
        )  # fmt: skip
    axes[1, 0].set(title="between GPUs or VMs (beyond 1.4: at the edge)", yscale="log",
                   xlabel="time over the median", ylabel="density")  # fmt: skip
    axes[1, 0].legend(fontsize=6)
    for one in times:
        relative = one.values / np.median(one.values)
        axes[1, 1].hist(
            np.clip(relative, 0.99, 1.02), bins=90, range=(0.99, 1.02), histtype="step",
            label=f"{one.name} ({len(relative):,} iterations)",
        )  # fmt: skip
    axes[1, 1].set(title="between iterations of one VM", yscale="log",
                   xlabel="time over the median", ylabel="iterations")  # fmt: skip
    axes[1, 1].legend(fontsize=7)
    for axis in axes.flat:
        axis.grid(visible=True, alpha=0.3)
    save(figure, path)


def _rows(spreads: Sequence[Spread]) -> list[tuple[str, ...]]:
    return [
        (one.name, f"{len(one.values):,}", f"{one.ratio:.3f}", f"{one.central_ratio:.3f}",
         percent(one.deviation))
        for one in spreads
    ]  # fmt: skip


def page(data: Path, plot: Path) -> list[str]:
    """Returns the page's lines, and draws its plot."""
    network, gpus, times = allreduce_spreads(data), gpu_spreads(data), temporal(data)
    runs = within_runs(data)
    draw(network, gpus, times, plot)
    head = ("", "number", "largest / smallest", "P95 / P5", "deviation")
    low, middle, high = np.quantile(runs, [0.1, 0.5, 0.9])
    return [
        "# How much VMs and their network differ",
        "",
        "Figures 1 and 2 of Luo et al. 2022, on data that others published. On the emulated",
        "cluster: [testbed.md](testbed.md), which draws its variation from the same data.",
        "",
        f"![Allreduce times, GPU and iteration times over their medians]({plot.name})",
        "",
        "## Figure 1: communication",
        "",
        "The paper: 10 allocations of 32 g3.4xlarge, five in a placement group, 100 allreduces",
        "each; means differ up to 1.8 times (1 KB) and 1.5 times (256 MB).",
        "",
        "### 1 KiB",
        "",
        *table(head, _rows(network[_SMALL])),
        "",
        "### 256 MiB",
        "",
        *table(head, _rows(network[_LARGE])),
        "",
        "**The same**: repeated allreduces of one size on one configuration, the mean of each run.",
        "**Not the same**: these are V100 VMs; no public log has g3, and none says whether a",
        "placement group was used, so that the figure's left and right half cannot be compared.",
        "Whether the GCP repeats ran on new VMs is not stated; the AWS ones span zones, weeks and",
        "library versions, so that their ratio is one of good and of badly set-up VMs. MPI rows",
        "are allreduces of another library, most from the memory of the host.",
        "",
        "## Figure 2, left: computation between VMs",
        "",
        "The paper: ResNet-18 on 760 g4dn.2xlarge, means of 100 iterations, near normal, up to 1.1",
        "times.",
        "",
        *table(head, _rows(gpus)),
        "",
        "**The same**: one training task on each GPU of a kind, as many GPUs as the paper had VMs",
        "within a factor of two to five. **Not the same**: the clusters with hundreds of GPUs are",
        "laboratories' own and not VMs; the A100 cluster was measured once per GPU, so that a slow",
        "run cannot be told from a slow GPU; the cloud VMs are H100 in place of T4, and far fewer.",
        "",
        "## Figure 2, right: computation over time",
        "",
        "The paper: 2,500 iterations of one VM, near normal, up to 1.1 times.",
        "",
        *table(head, _rows(times)),
        "",
        f"Over {len(runs)} single-GPU runs of ResNet-50, P95 over P5 of a run's iterations is",
        f"{middle:.3f} at the median, {low:.3f} at the 10th percentile, {high:.3f} at the 90th.",
        "**Not the same**: mean times are taken from a log, whose clock adds to the spread; long",
        "tails are single late iterations.",
        "",
    ]


def main() -> None:
    """Writes the page and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "variance.md")
    options = parser.parse_args()
    lines = page(options.data, options.output.with_suffix(".svg"))
    write(options.output, [*lines, made_by("python -m benchmarks.paper.variance")])


if __name__ == "__main__":
    main()
