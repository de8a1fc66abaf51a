"""Trains a small residual network on images made on the fly."""

import torch
from made_up import Images, resnet
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import srifty.training as st

EPOCHS, GLOBAL_BATCH = 2, 64


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Makes one step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Trains, as torchrun starts it."""
    dataset = Images(640)
    share = st.current_share(global_batch=GLOBAL_BATCH)
    sampler = st.GlobalBatchSampler(dataset, share, epochs=EPOCHS)
    loader = DataLoader(dataset, batch_sampler=sampler)
    model = st.distribute(st.sync_batch_norm(resnet()), share)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run = st.Run(share, {"model": model, "optimizer": optimizer}, folder="runs/resnet")
    for _, (images, labels) in st.steps(loader, run):
        losses = cross_entropy(model(images), labels, reduction="none")
        update(optimizer, st.mean_loss(losses))


if __name__ == "__main__":
    main()
