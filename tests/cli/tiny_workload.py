"""A model that is profiled in a second."""

from __future__ import annotations

import torch

from srifty.profiling.workload import Workload


def make() -> Workload:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    return Workload(
        "tiny", model, lambda model, batch: model(batch).square().mean(),
        lambda size: torch.randn(size, 16),
    )  # fmt: skip
