"""What exact weighting costs: paired steps of a ResNet-50 on gloo, weighted against plain.

    python -m benchmarks.weighting_overhead [--rounds 40] [--batches 3,1] [--pixels 64]

from the repository's root; needs torch. Each round makes one step of each kind in an order of its
own, every process with one thread: plain DistributedDataParallel's mean loss, `mean_loss`,
`item_total` (items counted before the forward pass, during which they are added up), `item_loss`
with a bare count (added up between forward and backward pass), and `loss="local-mean"` (gradients
weighted in a communication hook). All but the last share one model, so that nothing but the loss
differs; the hook has its own. A step is taken from a barrier to the end of the optimizer's step of
the slowest process; the processor time is the sum over all processes. Figures are lower quartiles
over the rounds, compared with the plain step's, with a 90 % interval (bootstrap over rounds).

`loss alone` is the call that makes the loss, of the slowest process: what weighting adds to a step,
directly; that of `item_loss` includes waiting for the other processes, which a step does anyway.
`plain again` is a second plain step in each round: what it differs from the first is noise.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed
from torch.nn import functional

import srifty.training as st
from benchmarks.profile_gpu_models import resnet50

_KINDS = ("plain", "plain again", "mean_loss", "item_total", "item_loss", "local-mean hook")
_WARM_UP = 2
# Disturbances only ever add time: the lower quartile forgets them and still averages.
_QUANTILE = 0.25


def _models(share: st.Share) -> dict[str, tuple[Any, Any]]:
    """Returns each kind's model and optimizer."""
    found: list[tuple[Any, Any]] = []
    for loss in ("local-mean", "weighted"):  # the losses serve the model that was made last
        torch.manual_seed(0)
        model: Any = resnet50().model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the batch normalisation is each worker's own
            parallel = st.distribute(model, share, loss=loss)
        found.append((parallel, torch.optim.SGD(parallel.parameters(), lr=1e-4, momentum=0.9)))
    hooked, weighted = found
    return {kind: hooked if kind == "local-mean hook" else weighted for kind in _KINDS}


def _measure(rank: int, batches: tuple[int, ...], pixels: int, rounds: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=(Path(folder) / "store").as_uri(), rank=rank, world_size=len(batches)
    )
    share = st.Share.of(*batches, rank=rank)
    models = _models(share)
    images = torch.randn(share.local_batch, 3, pixels, pixels)
    labels = torch.randint(1000, (share.local_batch,))
    orders = np.random.default_rng(0)
    rows: list[list[list[float]]] = []
    total: Any = None
    st.mean_loss(torch.zeros(1))  # lets the plain kinds pass for weighted ones
    for number in range(_WARM_UP + rounds):
        row = [[0.0, 0.0, 0.0] for _ in _KINDS]
        for place in orders.permutation(len(_KINDS)):
            kind = _KINDS[place]
            model, optimizer = models[kind]
            distributed.barrier()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            optimizer.zero_grad()
            if kind == "item_total":
                total = st.item_total(share.local_batch)
            values = functional.cross_entropy(model(images), labels, reduction="none")
            before_loss = time.perf_counter()
            if kind == "item_total":
                loss = st.item_loss(values.sum(), total)
            elif kind == "item_loss":
                loss = st.item_loss(values.sum(), share.local_batch)
            else:
                loss = st.mean_loss(values) if kind == "mean_loss" else values.mean()
            loss_s = time.perf_counter() - before_loss
            loss.backward()
            optimizer.step()
            row[place] = [time.perf_counter() - begin, time.process_time() - begin_cpu, loss_s]
        if number >= _WARM_UP:
            rows.append(row)
    times = torch.tensor(rows, dtype=torch.float64)
    slowest, total = times[..., [0, 2]].clone(), times[..., 1].clone()
    distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
    distributed.all_reduce(total)
    if rank == 0:
        _print_table(slowest[..., 0].numpy(), total.numpy(), slowest[..., 1].numpy())
    distributed.destroy_process_group()


def _print_table(
    slowest_s: NDArray[np.float64], total_s: NDArray[np.float64], loss_s: NDArray[np.float64]
) -> None:
    print("| step | s | wall clock | 90 % | processor time | 90 % | loss alone, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for place, kind in enumerate(_KINDS):
        cells = [f"{np.quantile(slowest_s[:, place], _QUANTILE):.3f}"]
        for times in (slowest_s, total_s):
            cells += [f"{_extra(times, place)[0]:+.2%}", _interval(times, place)]
        cells.append(f"{1e3 * np.quantile(loss_s[:, place], _QUANTILE):.2f}")
        print(f"| {kind} | {' | '.join(cells)} |")


def _extra(times: NDArray[np.float64], place: int) -> NDArray[np.float64]:
    """Returns by what fraction a kind's lower quartile exceeds that of the plain step.

    Args:
        times: seconds, shape (rounds, kinds), or (draws, rounds, kinds).
        place: of the kind.
    """
    quartiles = np.atleast_2d(np.quantile(times, _QUANTILE, axis=-2))
    return quartiles[:, place] / quartiles[:, 0] - 1


def _interval(times: NDArray[np.float64], place: int) -> str:
    rounds = np.random.default_rng(1).integers(len(times), size=(2000, len(times)))
    low, high = np.quantile(_extra(times[rounds], place), (0.05, 0.95))
    return f"{low:+.2%} to {high:+.2%}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--batches", default="3,1", help="samples of each process")
    parser.add_argument("--pixels", type=int, default=64)
    arguments = parser.parse_args()
    batches = tuple(map(int, arguments.batches.split(",")))
    print(
        f"torch {torch.__version__}, {len(batches)} processes, batches {arguments.batches}, "
        f"{arguments.pixels} x {arguments.pixels} pixels, {arguments.rounds} rounds\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _measure,
            (batches, arguments.pixels, arguments.rounds, folder),
            nprocs=len(batches),
        )


if __name__ == "__main__":
    main()
