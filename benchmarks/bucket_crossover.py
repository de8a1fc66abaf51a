"""When do DistributedDataParallel's buckets pay? The start-up latency at which they begin to win.

One bucket of 25 MiB pays the start-up latency of an allreduce once, where its tensors would pay it
one by one; but it waits for its last gradient, and the link idles meanwhile. For the built-in
ResNet-50 (161 gradients, 102 MB), one transfer at a time, `T(s) = alpha + s / beta`, no noise and a
backward pass of 100 or 200 ms, this finds by bisection the alpha at which both take equally long,
for beta from 0.3 to 30 GB/s. It prints the table of docs/results/bucket_crossover.md and draws its
plot:

    python benchmarks/bucket_crossover.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from srifty.allreduce import Uncertainty
from srifty.compute.latency import LatencyModel
from srifty.core import (
    ClusterConfig,
    GradientSync,
    InstanceType,
    Job,
    Location,
    Market,
    Offer,
    SyncMode,
    VmGroup,
)
from srifty.files import builtin_profiles
from srifty.simulator import ConfigTable, Simulator
from srifty.units import GIB

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "srifty"  # the same file from every run

from matplotlib import pyplot as plt  # noqa: E402 - the back end is chosen first

FloatArray = NDArray[np.float64]

PLOT = Path(__file__).parent.parent / "docs" / "results" / "bucket_crossover.svg"
BETAS = tuple(float(beta) for beta in np.geomspace(0.3e9, 30e9, 41))
TABLE_BETAS = (0.3e9, 0.5e9, 0.7e9, 1e9, 2e9, 3e9, 5e9, 10e9, 20e9, 30e9)
BACKWARD_S = (0.1, 0.2)  # the forward pass takes half as long
LEAST_ALPHA_S, MOST_ALPHA_S = 1e-9, 1e-1
PROFILE = next(profile for profile in builtin_profiles("resnet50") if profile.gpu == "V100")
MODEL = LatencyModel.fit(PROFILE)
LOCAL_BATCH = 32
V100 = Offer(
    InstanceType("one-v100", "example", "V100", 1, 16 * GIB, 8, 10.0),
    Market.ON_DEMAND,
    Location("example"),
    1.0,
    8,
)


@dataclass(frozen=True)
class PlainNetwork:
    """An allreduce model in which one of `s` bytes takes `alpha_s + s / beta` in every world."""

    alpha_s: float
    beta: float

    def time_s(
        self,
        instance_type: InstanceType,  # noqa: ARG002 - every type is alike
        world_size: NDArray[np.int64],
        vms: NDArray[np.int64],  # noqa: ARG002 - every placement is alike
        size_bytes: FloatArray,
    ) -> FloatArray:
        """Returns the same row for every world."""
        return np.tile(self.alpha_s + size_bytes / self.beta, (len(world_size), 1))

    def bus_capacity(
        self,
        instance_type: InstanceType,  # noqa: ARG002
        world_size: NDArray[np.int64],
        vms: NDArray[np.int64],  # noqa: ARG002
    ) -> FloatArray:
        """Returns the bus bandwidth that `beta` amounts to; with one slot nobody asks."""
        return 2 * (world_size - 1) / world_size * self.beta

    def uncertainty(self, instance_type: InstanceType) -> Uncertainty:  # noqa: ARG002
        """Returns none: the times are given."""
        return Uncertainty(0.0, 0.0)

    def assumptions(self, instance_types: Sequence[InstanceType]) -> tuple[str, ...]:  # noqa: ARG002
        """Returns the law."""
        return (f"T(s) = {self.alpha_s:g} s + s / {self.beta:g} B/s.",)


def latency_of(backward_s: float) -> LatencyModel:
    """Returns a latency model without spread, scaled to a backward pass of the given length."""
    return replace(
        MODEL,
        forward=MODEL.forward.scaled(0.5 * backward_s / float(MODEL.forward.predict(LOCAL_BATCH))),
        backward=MODEL.backward.scaled(backward_s / float(MODEL.backward.predict(LOCAL_BATCH))),
        step_std_fraction=0.0,
        spatial_std_fraction=0.0,
    )


def iteration_s(alpha_s: float, beta: float, backward_s: float, mode: SyncMode) -> float:
    """Returns the iteration time of four workers."""
    job = Job("crossover", (PROFILE,), 4 * LOCAL_BATCH, 1, sync=GradientSync(mode=mode))
    table = ConfigTable.from_configs([ClusterConfig((VmGroup(V100, 4, LOCAL_BATCH, 1),))])
    simulator = Simulator({"V100": latency_of(backward_s)}, PlainNetwork(alpha_s, beta))
    return float(simulator.predict(job, table).mean_s[0])


def tensors_win(alpha_s: float, beta: float, backward_s: float) -> bool:
    """Returns whether single tensors end the iteration before buckets do."""
    single_s = iteration_s(alpha_s, beta, backward_s, SyncMode.PER_LAYER)
    return single_s < iteration_s(alpha_s, beta, backward_s, SyncMode.DDP)


def crossing_s(beta: float, backward_s: float) -> float:
    """Returns the latency below which single tensors are faster and above which buckets are.

    Raises:
        ValueError: one way is faster at every latency that was looked at.
    """
    low_s, high_s = LEAST_ALPHA_S, MOST_ALPHA_S
    if not tensors_win(low_s, beta, backward_s) or tensors_win(high_s, beta, backward_s):
        raise ValueError(f"no crossing at {beta:g} B/s and a backward pass of {backward_s:g} s")
    for _ in range(40):
        middle_s = (low_s * high_s) ** 0.5
        if tensors_win(middle_s, beta, backward_s):
            low_s = middle_s
        else:
            high_s = middle_s
    return (low_s * high_s) ** 0.5


def print_table() -> None:
    """Prints the crossings as a Markdown table."""
    heads = (f"backward pass {backward_s * 1e3:.0f} ms: alpha, µs" for backward_s in BACKWARD_S)
    print(f"| beta, GB/s | {' | '.join(heads)} |")
    print("|---:|" + "---:|" * len(BACKWARD_S))
    for beta in TABLE_BETAS:
        crossings_us = [crossing_s(beta, backward_s) * 1e6 for backward_s in BACKWARD_S]
        cells = (f"{us:.0f}" if us >= 10 else f"{us:.3f}" for us in crossings_us)
        print(f"| {beta / 1e9:g} | {' | '.join(cells)} |")


def draw(path: Path) -> None:
    """Draws the crossings over the bandwidth."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for backward_s, colour in zip(BACKWARD_S, ("tab:blue", "tab:orange"), strict=True):
        alphas_us = [crossing_s(beta, backward_s) * 1e6 for beta in BETAS]
        label = f"backward pass {backward_s * 1e3:.0f} ms"
        axes.loglog([beta / 1e9 for beta in BETAS], alphas_us, color=colour, label=label)
    axes.text(0.04, 0.92, "buckets are faster", transform=axes.transAxes)
    axes.text(0.95, 0.35, "single tensors are faster", transform=axes.transAxes, ha="right")
    axes.set_xlabel("bandwidth of an allreduce, beta (GB/s)")
    axes.set_ylabel("start-up latency at which both are alike, alpha (µs)")
    axes.set_title("ResNet-50, T(s) = alpha + s / beta, one transfer at a time")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Prints the table and draws the plot."""
    print_table()
    draw(PLOT)
    print(f"\nThe plot: {PLOT}")


if __name__ == "__main__":
    main()
