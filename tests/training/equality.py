"""What workers of one group find when they train each case: `work` for `tests.training.group`."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import srifty.training as st
from tests.training.cases import (
    Case,
    batch_of,
    local_mean_part,
    made,
    mean_part,
    mean_whole,
    split_cases,
    state_of,
    train_plain,
    train_split,
    train_whole,
)

SHARES = {2: [(5, 3)], 3: [(5, 2, 1), (3, 3, 2)], 5: [(4, 1, 2, 2, 1)]}
# For comparison with an equal split the same number of samples must be dealt evenly too.
ROUGH_SHARES = {2: (7, 3), 3: (7, 3, 2), 5: (6, 4, 2, 2, 1)}
# What the first split shows of all cases, the others need not.
FEW = ("mean", "items", "accumulated items", "unused", "scaler", "synced")
# Where plain training is compared as well.
PLAIN = ("mean", "items", "unused")


def bf16_hook(group, bucket):
    """Torch's, which by its own name it refuses on a CPU."""
    return default_hooks.bf16_compress_hook(group, bucket)


def distance(one, other):
    """Largest difference of any number; NaN counts as infinite."""
    apart = (one - other).abs().max().item()
    return apart if math.isfinite(apart) else 1e300


def over_workers(value, operation=distributed.ReduceOp.MAX):
    found = torch.as_tensor(value, dtype=torch.float64).clone()
    distributed.all_reduce(found, operation)
    return found


def oracle(case, dtype, rank):
    """One process's state; rank 0 trains, the others learn it from there."""
    state = train_whole(case, dtype) if rank == 0 else torch.zeros_like(state_of(made(case, dtype)))
    distributed.broadcast(state, 0)
    return state


def equality(case, dtype, rank):
    """How far the split training is from one process's, at the worst worker."""
    split, steps = train_split(case, dtype, rank)
    furthest = over_workers(distance(split, oracle(case, dtype, rank))).item()
    losses, norms = steps.T
    spread = (over_workers(norms) + over_workers(-norms)).max().item()
    mean = over_workers(losses[0], distributed.ReduceOp.SUM).item() / case.share.world_size
    batch = batch_of(0, case.share.global_batch, dtype)
    case.change(batch)
    first = case.whole(made(case, dtype), batch).item()
    return {
        "apart": furthest,
        "norm": norms.max().item(),
        "norms apart": spread,
        "loss apart": abs(mean - first) / abs(first),
    }


def rough(world_size, rank):
    """Errors of split training and of the equal split, each against one process's."""
    even = st.Share.of(*(sum(ROUGH_SHARES[world_size]) // world_size,) * world_size)
    uneven = st.Share.of(*ROUGH_SHARES[world_size])
    found = {}
    for name, hook in (
        ("fp16", default_hooks.fp16_compress_hook),
        ("bf16", bf16_hook),
        ("autocast", None),
    ):
        autocast = name == "autocast"
        reference = Case(even, mean_whole, mean_part, autocast=autocast)
        whole = oracle(reference, torch.float32, rank)
        plain = train_plain(reference, torch.float32, rank, hook)
        unweighted = train_plain(replace(reference, share=uneven), torch.float32, rank, hook)
        for part, loss in ((mean_part, "weighted"), (local_mean_part, "local-mean")):
            options = {"loss": loss} | ({} if autocast else {"compression": name})
            case = Case(uneven, mean_whole, part, options=options, autocast=autocast)
            ours = train_split(case, torch.float32, rank)[0]
            found[f"{name}, {loss}"] = {
                "ours": (ours - whole).norm().item(),
                "even": (plain - whole).norm().item(),
                "unweighted": (unweighted - whole).norm().item(),
            }
    return found


def work(rank, world_size):
    warnings.simplefilter("error")
    found = {"exact": {}, "plain": {}, "rough": rough(world_size, rank)}
    for place, batches in enumerate(SHARES[world_size]):
        few = place > 0 or world_size > 3
        cases = split_cases(st.Share.of(*batches))
        for name in FEW if few else cases:
            case = cases[name]
            for dtype in (torch.float64, torch.float32):
                if few and dtype is torch.float32:
                    continue
                label = f"{name} {batches} {str(dtype).removeprefix('torch.')}"
                found["exact"][label] = equality(case, dtype, rank)
            if name in PLAIN:
                plain = train_plain(case, torch.float64, rank)
                found["plain"][f"{name} {batches}"] = distance(
                    plain, oracle(case, torch.float64, rank)
                )
    return found
