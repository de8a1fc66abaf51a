"""A torchrun script of two workers, one of which is gone in the fourth step: `FOLDER`."""

import os
import sys

import torch
from torch.utils.data import DataLoader

import srifty.training as st


def main():
    torch.set_num_threads(1)
    data = torch.arange(40.0)[:, None]
    share = st.current_share()
    model = st.distribute(torch.nn.Linear(1, 1), share)
    run = st.Run(share, {"model": model}, folder=sys.argv[1], save_every=2)
    loader = DataLoader(data, batch_sampler=st.GlobalBatchSampler(data, share))
    for step, batch in st.steps(loader, run):
        if (step, share.rank) == (3, 1):
            os._exit(9)
        st.mean_loss(model(batch).mean(1)).backward()


if __name__ == "__main__":
    main()
