"""What progress, stop signals and checkpoints cost: paired blocks of ResNet-50 steps on gloo.

    python -m benchmarks.loop_overhead [--rounds 6] [--steps 10] [--batches 3,1] [--pixels 64]

from the repository's root; needs torch. Each round makes one block of steps of each kind, in an
order of its own, every process with one thread and all kinds with the same model: `plain` takes its
batches from the loader; `steps, no saves` from `srifty.training.steps` with a log; `steps` with a
log and one save of model and optimizer (205 MB) in the background per block, whose end the block
waits for. Wall clock is that of the slowest process, processor time the sum over all. Figures are
medians over the rounds of the extra to the plain block of the same round, with a 90 % interval
(bootstrap over rounds); `plain again` is what differs by chance. On a busy machine that is more
than the extra; so below the table stands what was measured of the extra itself: the time from one
step's body to the next (loading, log, exchange, random numbers) beside that of a plain loop, and the
stall, duration and processor time of a save, as fractions of the steps between two saves.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import srifty.training as st
from benchmarks.profile_gpu_models import resnet50
from srifty.training.stopping import save_interval_s

_KINDS = ("plain", "plain again", "steps, no saves", "steps")
_LONG = 1_000_000  # steps of the training, which is never ended
_FAILURES_S = 4 * 3600.0


class _Images(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """The same image over and over."""

    def __init__(self, pixels: int) -> None:
        self.image = torch.randn(3, pixels, pixels)

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.image, index % 1000


def _plain(loader: DataLoader[Any]) -> Iterator[tuple[int, Any]]:
    yield from enumerate(loader)


def _measure(
    rank: int, batches: tuple[int, ...], pixels: int, size: tuple[int, int], at: str
) -> None:
    rounds, steps = size
    torch.set_num_threads(1)
    store = (Path(at) / "store").as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=len(batches))
    share = st.Share.of(*batches, rank=rank)
    model = st.distribute(st.sync_batch_norm(resnet50().model), share)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    images = _Images(pixels)
    state = {"model": model, "optimizer": optimizer}

    def loader() -> DataLoader[Any]:
        return DataLoader(images, batch_sampler=st.GlobalBatchSampler(images, share, steps=_LONG))

    quiet = st.Run(share, state, progress=Path(at) / "quiet", environment={})
    saving = st.Run(
        share, state, folder=Path(at) / "saved", save_every=steps, progress=Path(at) / "saving",
        environment={},
    )  # fmt: skip
    sources = [
        _plain(loader()),
        _plain(loader()),
        st.steps(loader(), quiet),
        st.steps(loader(), saving),
    ]
    orders = np.random.default_rng(0)
    rows: list[list[list[float]]] = []
    between: list[list[float]] = [[] for _ in _KINDS]
    for number in range(1 + rounds):
        row = [[0.0, 0.0] for _ in _KINDS]
        for kind in orders.permutation(len(_KINDS)):
            distributed.barrier()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            for _ in range(steps):
                between_s = time.perf_counter()
                _, (inputs, labels) = next(sources[kind])
                between[kind].append(time.perf_counter() - between_s)
                optimizer.zero_grad()
                st.mean_loss(cross_entropy(model(inputs), labels, reduction="none")).backward()
                optimizer.step()
            if kind == len(_KINDS) - 1 and saving.checkpoints is not None:
                saving.checkpoints.wait()
            row[kind] = [time.perf_counter() - begin, time.process_time() - begin_cpu]
        if number:  # the first warms up
            rows.append(row)
    times = torch.tensor(rows, dtype=torch.float64)
    slowest, total = times[..., 0].clone(), times[..., 1].clone()
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    distributed.all_reduce(total)
    if rank == 0:
        _print_table(slowest.numpy(), total.numpy(), steps)
        loop_s = float(np.median(between[2]) - np.median(between[0]))
        step_s = float(np.median(total.numpy()[:, 0])) / steps / len(batches)
        _print_parts(saving.checkpoints, loop_s, step_s)
    distributed.destroy_process_group()


def _print_table(slowest_s: NDArray[np.float64], total_s: NDArray[np.float64], steps: int) -> None:
    print("| block | s per step | wall clock | 90 % | processor time | 90 % |")
    print("|---|---:|---:|---:|---:|---:|")
    for place, kind in enumerate(_KINDS):
        cells = [f"{np.median(slowest_s[:, place]) / steps:.3f}"]
        for times in (slowest_s, total_s):
            extra = times[:, place] / times[:, 0] - 1
            draws = np.random.default_rng(1).integers(len(extra), size=(2000, len(extra)))
            low, high = np.quantile(np.median(extra[draws], axis=1), (0.05, 0.95))
            cells += [f"{np.median(extra):+.2%}", f"{low:+.2%} to {high:+.2%}"]
        print(f"| {kind} | {' | '.join(cells)} |")


def _print_parts(checkpoints: Any, loop_s: float, step_s: float) -> None:
    began = time.process_time()
    checkpoints.start(_LONG - 1, {})
    checkpoints.wait()
    cpu_s = time.process_time() - began
    apart_s = save_interval_s(checkpoints.stall_s, checkpoints.save_s, _FAILURES_S)
    print(
        f"\nThe loop adds {loop_s * 1e3:.2f} ms to a step, {loop_s / step_s:.2%} of the "
        f"{step_s:.2f} s of processor time that a process spends on a plain one.\n"
        f"A save holds training up for {checkpoints.stall_s:.3f} s, is durable after "
        f"{checkpoints.save_s:.2f} s and takes {cpu_s:.2f} s of processor time. With a failure "
        f"every 4 h saves are {apart_s:.0f} s apart: {checkpoints.stall_s / apart_s:.2%} of the "
        f"time is stall, {cpu_s / apart_s:.2%} of one core's goes to saves."
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=10, help="steps of a block")
    parser.add_argument("--batches", default="3,1", help="samples of each process")
    parser.add_argument("--pixels", type=int, default=64)
    arguments = parser.parse_args()
    batches = tuple(map(int, arguments.batches.split(",")))
    print(
        f"torch {torch.__version__}, {len(batches)} processes, batches {arguments.batches}, "
        f"{arguments.pixels} x {arguments.pixels} pixels, {arguments.rounds} rounds of blocks of "
        f"{arguments.steps} steps\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _measure,
            (batches, arguments.pixels, (arguments.rounds, arguments.steps), folder),
            nprocs=len(batches),
        )


if __name__ == "__main__":
    main()
