"""What `srifty profile` measures on the bed: `benchmarks.testbed.workloads:make_workload`.

The environment says which model on which GPU: `TESTBED_MODEL`, `TESTBED_GPU`, and the VM's draws,
`TESTBED_DRAWS` (see `variance_of`).
"""

from __future__ import annotations

import os

import torch

from benchmarks.testbed.clock import sharpen
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.emulated import EmulatedModel, Stream, WaitingOptimizer
from benchmarks.testbed.pace import pace_of
from srifty.profiling.workload import Workload


def make_workload() -> Workload:
    """Returns the workload that the environment names."""
    sharpen()
    torch.set_num_threads(1)
    name, gpu = os.environ["TESTBED_MODEL"], os.environ["TESTBED_GPU"]
    draws = Draws.from_text(os.environ.get("TESTBED_DRAWS", ""))
    model = EmulatedModel(name, pace_of(name, gpu), Stream(draws.step_factor))
    return Workload(
        name=name,
        model=model,
        loss=lambda module, batch: module(batch).sum(),
        make_batch=lambda size: torch.zeros(size, 1),
        optimizer=WaitingOptimizer(model),
    )
