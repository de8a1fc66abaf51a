"""A sharded model (FSDP) that is saved and gone on with: `work` for `tests.training.group`."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import srifty.training as st


def made(world_size):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (world_size,)))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def train(model, optimizer, steps):
    for step in steps:
        inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return [p.full_tensor().flatten().tolist() for p in model.parameters()]


def work(rank, world_size):
    folder = Path(os.environ["SHARDING"])
    group = distributed.new_group(backend="gloo")
    model, optimizer = made(world_size)
    state = {"model": model, "optimizer": optimizer}
    saves = st.Checkpoints(folder, state, rank=rank, group=group)
    (found,) = [saves.newest()] if rank == 0 else [None]
    steps = torch.tensor(-1 if found is None else found.step)
    distributed.broadcast(steps, 0)
    if steps < 0:
        train(model, optimizer, range(3))
        saves.start(3, {})
        parameters = train(model, optimizer, range(3, 6))
        saves.wait()
        assert rank != 0 or saves.save_s > 0
    else:
        saves.load(st.checkpoint.check(saves.folder, int(steps)))
        parameters = train(model, optimizer, range(3, 6))
    return {"step": int(steps), "parameters": [x for one in parameters for x in one]}
