"""Latency and throughput over the batch size, as a drawing (matplotlib, an optional extra)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from srifty.compute.latency import LatencyModel
from srifty.core.profile import WorkloadProfile
from srifty.errors import InputError


def plot_profile(profile: WorkloadProfile, path: Path) -> None:
    """Draws the profile; the file's ending chooses the format.

    Raises:
        InputError: matplotlib is not installed, does not know the ending, or cannot write.
    """
    figures = _figures()
    model = LatencyModel.fit(profile)
    batches = np.array([latency.batch for latency in profile.latencies], dtype=float)
    ends = np.log([batches[0], max(batches[-1], profile.max_batch)])
    dense = np.exp(np.linspace(ends[0], ends[1], 200, dtype=np.float64))
    figure: Any = figures.Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    curves: tuple[tuple[str, Any, str], ...] = (("step", model.step_s(dense), "C0"),)
    if profile.is_split:
        curves += (
            ("forward", model.forward.predict(dense), "C1"),
            ("backward", model.backward.predict(dense), "C2"),
        )
    for name, seconds, colour in curves:
        left.plot(dense, 1e3 * seconds, colour, label=name)
    steps_s = np.array([latency.step_s for latency in profile.latencies])
    spread_s = np.array([latency.std_s or 0.0 for latency in profile.latencies])
    left.errorbar(batches, 1e3 * steps_s, 1e3 * spread_s, fmt="C0o", label="timed")
    right.plot(dense, dense / model.step_s(dense), "C0")
    right.plot(batches, batches / steps_s, "C0o")
    for axes in (left, right):
        axes.axvline(model.knee_batch, color="0.5", linestyle="--", label="least useful batch")
        axes.axvline(profile.max_batch, color="0.5", linestyle=":", label="largest batch")
        axes.set_xscale("log", base=2)
        axes.set_xlabel(f"{profile.item.unit}s per pass")
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    left.set_ylabel("milliseconds")
    left.legend()
    right.set_ylabel(f"{profile.item.unit}s per second")
    figure.suptitle(f"{profile.workload} on {profile.gpu}, {profile.precision}")
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", str(path)) from None
    except ValueError as error:  # an ending that names no format
        raise InputError(f"cannot be drawn: {error}", str(path)) from None


def _figures() -> Any:
    try:
        return importlib.import_module("matplotlib.figure")
    except ImportError:
        raise InputError('needs matplotlib: pip install "srifty[report]"', "--plot") from None
