"""A small training that is stopped, killed and gone on with: `work` for `tests.training.group`.

ELASTIC names its folder, ELASTIC_STOP the step at which one worker asks for a stop, ELASTIC_KILL
the step in which one is gone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import srifty.training as st

LENGTH, BATCH, EPOCHS = 100, 12, 4
LAST = LENGTH % BATCH
STEPS = EPOCHS * -(-LENGTH // BATCH)


class Points(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(LENGTH, 3, generator=generator, dtype=torch.float64)
        self.targets = torch.randn(LENGTH, 1, generator=generator, dtype=torch.float64)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index, self.inputs[index], self.targets[index]


def made():
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return model.double()


def work(rank, world_size):
    folder = Path(os.environ["ELASTIC"])
    stop = int(os.environ.get("ELASTIC_STOP", "-1"))
    kill = int(os.environ.get("ELASTIC_KILL", "-1"))
    share = st.current_share(global_batch=BATCH)
    points = Points()
    model = st.distribute(made(), share)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    sampler = st.GlobalBatchSampler(points, share, seed=3, epochs=EPOCHS, remainder="keep")
    run = st.Run(
        share,
        {"model": model, "optimizer": optimizer},
        folder=folder / "saved",
        save_every=4,
        progress=folder / "progress",
        stop_file=folder / f"stop-{stop}",
    )
    loader = DataLoader(points, batch_sampler=sampler, num_workers=2 if world_size == 3 else 0)
    steps = []
    with (folder / f"seen-{rank}.jsonl").open("a") as seen:
        for step, batches in st.steps(loader, run, in_passes=True):
            steps.append(step)
            for group in optimizer.param_groups:
                group["lr"] = 0.05 / (1 + step)
            optimizer.zero_grad()
            for indexes, inputs, targets in st.passes(model, batches):
                losses = (model(inputs) - targets).square().mean(1)
                st.mean_loss(losses).backward()
                seen.write(json.dumps([step, indexes.tolist()]) + "\n")
                seen.flush()
            if step == kill and rank == world_size - 1:
                os._exit(9)
            optimizer.step()
            if step == stop and rank == world_size - 1:
                (folder / f"stop-{stop}").touch()
    bare = getattr(model, "module", model)
    return {
        "first": steps[0],
        "last": steps[-1],
        "finished": run.finished,
        "parameters": torch.cat([p.flatten() for p in bare.parameters()]).tolist(),
    }
