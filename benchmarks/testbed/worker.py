"""One rank of the bed: trains the emulated models that a folder of tasks names.

    RANK=0 WORLD_SIZE=4 MASTER_ADDR=... MASTER_PORT=... python -m benchmarks.testbed.worker FOLDER

Rank 0 writes `result-K.json` for the task in `task-K.json`; `end` in its place ends all ranks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.testbed.clock import sharpen
from benchmarks.testbed.emulated import EmulatedModel, Stream, WaitingOptimizer
from benchmarks.testbed.layers import SCALE
from benchmarks.testbed.pace import pace_of
from benchmarks.testbed.procfs import queue_wait_s
from benchmarks.testbed.task import Task

BUCKET_MIB, FIRST_BUCKET_MIB = 25 / SCALE, 1 / SCALE
_LOOK_EVERY_S = 0.02
_TIMEOUT = timedelta(seconds=120)


class WrongGradient(Exception):  # noqa: N818 - what is wrong, not an error of this program
    """An averaged gradient is not the mean of the ranks' gradients."""


class Worlds:
    """The process group of this rank: one at a time, made anew where a run needs another.

    Connections do not outlive a change of the links, whose packets they would else keep.
    """

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._group: Any = None

    def of(self, task: Task) -> Any:
        """Returns the group of a task's ranks; all ranks of the bed must ask for it."""
        key = (len(task.seats), task.threads, task.links)
        if key != self._key:
            if self._group not in (None, dist.GroupMember.NON_GROUP_MEMBER):
                dist.destroy_process_group(self._group)
            self._group = dist.new_group(
                list(range(len(task.seats))),
                timeout=_TIMEOUT,
                backend=_backend(task.threads),
            )
            self._key = key
        return self._group


def _backend(threads: int) -> str:
    """Returns the name of gloo with so many threads, registered if need be."""
    name = f"gloo{threads}"
    if hasattr(dist.Backend, name.upper()):
        return name

    def make(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        options = dist.ProcessGroupGloo._Options()
        options._threads = threads
        options._timeout = timeout
        options._devices = [_device()]
        return dist.ProcessGroupGloo(store, rank, size, options)

    dist.Backend.register_backend(name, make, devices=["cpu"])
    return name


def _device() -> Any:
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    if interface:
        return dist.ProcessGroupGloo.create_device(interface=interface)
    return dist.ProcessGroupGloo.create_default_device()


def run_task(task: Task, rank: int, group: Any) -> dict[str, Any]:
    """Runs a task; returns what this rank saw.

    Args:
        task: what.
        rank: this one.
        group: the task's ranks.

    Raises:
        WrongGradient: the exchange gave a wrong sum.
    """
    seat, size = task.seats[rank], len(task.seats)
    model = EmulatedModel(
        task.model, pace_of(task.model, seat.gpu), Stream(seat.draws.step_factor), rank + 1.0
    )
    optimizer = WaitingOptimizer(model)
    batch = torch.zeros(seat.batch, 1)
    step = (_per_layer if task.per_layer else _bucketed)(model, group, size)
    expected = (size + 1) / 2
    dist.barrier(group=group)
    waited_s = 0.0
    marks: list[float] = []
    total = task.warm_up + task.iterations
    for iteration in range(total + 1):
        if iteration == task.warm_up:
            waited_s = -queue_wait_s("self")
        marks.append(time.perf_counter())
        if iteration == total:
            break
        optimizer.zero_grad(set_to_none=True)
        step(batch)
        optimizer.step()
        _check(model, expected, iteration % len(model.weights) if iteration else None)
    waited_s += queue_wait_s("self")
    _check(model, expected, None)
    seconds = [after - before for before, after in pairwise(marks)]
    return {"seconds": seconds[task.warm_up :], "waited_s": waited_s}


def _bucketed(model: EmulatedModel, group: Any, size: int) -> Callable[[torch.Tensor], None]:
    del size
    wrapped = DistributedDataParallel(
        model,
        process_group=group,
        bucket_cap_mb_list=[FIRST_BUCKET_MIB, BUCKET_MIB],
        gradient_as_bucket_view=True,
    )

    def step(batch: torch.Tensor) -> None:
        wrapped(batch).sum().backward()

    return step


def _per_layer(model: EmulatedModel, group: Any, size: int) -> Callable[[torch.Tensor], None]:
    works: list[Any] = []

    def send(weight: torch.Tensor) -> None:
        works.append(dist.all_reduce(weight.grad, group=group, async_op=True))

    for weight in model.weights:
        weight.register_post_accumulate_grad_hook(send)
    model.gradient /= size  # as DistributedDataParallel does it: divided before it is sent

    def step(batch: torch.Tensor) -> None:
        model(batch).sum().backward()
        for work in works:
            work.wait()
        works.clear()

    return step


def _check(model: EmulatedModel, expected: float, layer: int | None) -> None:
    """Looks at the ends of one layer's gradient, or (None) at every element of all."""
    for at, weight in enumerate(model.weights):
        if weight.grad is None:
            raise WrongGradient(f"layer {at} has no gradient")
        if layer is None:
            off = float((weight.grad - expected).abs().max())
        elif at == layer:
            off = max(abs(float(weight.grad[0]) - expected), abs(float(weight.grad[-1]) - expected))
        else:
            continue
        if off > 1e-4 * expected:
            raise WrongGradient(f"layer {at} is off by {off}")


def _await_text(path: Path) -> str:
    while not path.exists():
        time.sleep(_LOOK_EVERY_S)
    return path.read_text(encoding="utf-8")


def main() -> None:
    """Joins the world and serves tasks until the end."""
    sharpen()
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    worlds = Worlds()
    if rank == 0:
        (folder / "ready").touch()
    number = 0
    while True:
        text = _await_text(folder / f"task-{number}.json")
        if text == "end":
            break
        task = Task.from_text(text)
        group = worlds.of(task)
        if rank < len(task.seats):
            found = run_task(task, rank, group)
            part = folder / f"part-{number}-{rank}.json"
            whole = folder / f"result-{number}-{rank}.json"
            part.write_text(json.dumps(found), encoding="utf-8")
            part.rename(whole)
        number += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
