"""A training in which one worker is slow, by itself: `work` for `tests.training.group`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import srifty.training as st

SLOW, STEPS, SLEEP_S = 1, 25, 0.05


def work(rank, world_size):
    data = torch.randn(40, 3)
    share = st.current_share(global_batch=4)
    model = st.distribute(torch.nn.Linear(3, 1), share)
    run = st.Run(share, {"model": model}, progress=Path(os.environ["WAITING"]), environment={})
    sampler = st.GlobalBatchSampler(data, share, steps=STEPS)
    for _, batch in st.steps(DataLoader(data, batch_sampler=sampler), run):
        if rank == SLOW:
            time.sleep(SLEEP_S)
        st.mean_loss(model(batch).square().sum(1)).backward()
