"""A workload profile as people read it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from srifty.compute.latency import LatencyModel
from srifty.core.profile import WorkloadProfile
from srifty.units import format_bytes, format_duration

_MOST_GRADIENTS = 3


def show_profile(console: Console, profile: WorkloadProfile) -> None:
    """Prints latencies, limits, gradients and notes."""
    console.print(f"{profile.workload} on {profile.gpu}, {profile.precision}", markup=False)
    table = Table(box=None, pad_edge=False)
    heads = (
        "batch",
        "forward",
        "backward",
        "optimizer",
        "step",
        "± per step",
        f"{profile.item.unit}s/s",
        "steps",
    )
    for head in heads:
        table.add_column(head, justify="right")
    for latency in profile.latencies:
        parts = (latency.forward_s, latency.backward_s, latency.optimizer_s, latency.step_s)
        spread = "" if latency.std_s is None else f"{latency.std_s / latency.step_s:.1%}"
        table.add_row(
            f"{latency.batch:,}",
            *("" if part is None else format_duration(part) for part in parts),
            spread,
            f"{latency.batch / latency.step_s:,.0f}",
            "" if latency.steps is None else f"{latency.steps:,}",
        )
    console.print(table)
    model = LatencyModel.fit(profile)
    console.print(
        f"Batches of {profile.min_batch:,} to {profile.max_batch:,} "
        f"({profile.max_batch_evidence}); least useful batch: {model.knee_batch:,} "
        "(the knee: below it a pass hardly gets shorter)."
    )
    if profile.gradients is not None:
        parts = profile.gradients.gradients
        first = ", ".join(f"{g.name} at {g.ready:.0%}" for g in parts[:_MOST_GRADIENTS])
        console.print(
            f"{len(parts):,} gradients, {format_bytes(profile.gradients.total_bytes)}; "
            f"ready first: {first} of the backward pass.",
            markup=False,
        )
    if profile.input_samples_per_s_per_vcpu is not None:
        rate = profile.input_samples_per_s_per_vcpu
        console.print(f"Input: {rate:,.0f} {profile.item.unit}s/s for each vCPU.")
    if profile.compile_s is not None:
        console.print(f"Compiling took {format_duration(profile.compile_s)} for each batch size.")
    for note in profile.notes:
        console.print(f"- {note}", markup=False)
