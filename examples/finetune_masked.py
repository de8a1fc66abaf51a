"""Tunes a small transformer, all but its embedding, to guess masked words."""

import torch
from made_up import Guesser, Sentences
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import srifty.training as st

EPOCHS, GLOBAL_BATCH = 2, 48


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Makes one step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Trains, as torchrun starts it."""
    dataset = Sentences(960)
    guesser = Guesser()
    guesser.words.requires_grad_(requires_grad=False)
    share = st.current_share(global_batch=GLOBAL_BATCH)
    sampler = st.GlobalBatchSampler(dataset, share, epochs=EPOCHS)
    loader = DataLoader(dataset, batch_sampler=sampler)
    model = st.distribute(guesser, share)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    run = st.Run(share, {"model": model, "optimizer": optimizer}, folder="runs/masked")
    for _, (words, targets) in st.steps(loader, run):
        losses = cross_entropy(model(words).mT, targets, reduction="sum")
        update(optimizer, st.item_loss(losses, (targets >= 0).sum()))


if __name__ == "__main__":
    main()
