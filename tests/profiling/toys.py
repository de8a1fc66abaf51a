"""Factories of small workloads, some of which misbehave, for trials in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch

from srifty.profiling.workload import Workload

LAUNCH_LIMIT = 65_535


def mlp(before=lambda samples: None, **changes) -> Workload:
    """Under 1 KB of parameters; `before` is called with the number of samples of each pass."""

    def loss(model, batch):
        before(len(batch))
        return model(batch).square().mean()

    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    parts = {"make_batch": lambda size: torch.ones(size, 4)} | changes
    return Workload(name="mlp", model=model, loss=loss, **parts)


def refuse_large_launches(samples: int) -> None:
    if samples > LAUNCH_LIMIT:
        raise RuntimeError("invalid configuration argument")


def normed(**changes) -> Workload:
    """Convolutions down to 1x1 maps, with BatchNorm on them."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Conv2d(8, 8, 1),
        torch.nn.BatchNorm2d(8),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 2),
    )
    return Workload(
        name="normed",
        model=model,
        loss=lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]),
        make_batch=lambda size: (torch.randn(size, 3, 8, 8), torch.zeros(size, dtype=torch.long)),
        **changes,
    )


def _tell(process: int) -> None:
    """Says which process it is, to the file that PID_FILE names."""
    if "PID_FILE" in os.environ:
        Path(os.environ["PID_FILE"]).write_text(str(process), encoding="ascii")


def talkative() -> Workload:
    """Prints in the way of the answer, and leaves a process behind that holds open files."""

    def loss(model, batch):
        sys.stdout.write('{"verdict": "out of memory"}\n')
        return model(batch).square().mean()

    left_behind = os.fork()
    if left_behind == 0:
        time.sleep(600)
        os._exit(0)
    _tell(left_behind)
    workload = mlp()
    workload.loss = loss
    return workload


def killed() -> Workload:
    return mlp(lambda samples: os.kill(os.getpid(), signal.SIGKILL))


def leaving() -> Workload:
    def leave(samples):
        sys.stderr.write("some noise\nthe last words\n")
        sys.stderr.flush()
        os._exit(7)

    return mlp(leave)


def hanging() -> Workload:
    """Never made."""
    _tell(os.getpid())
    time.sleep(600)
    return mlp()
