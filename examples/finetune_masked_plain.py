"""Tunes a small transformer, all but its embedding, to guess masked words."""

import torch
from made_up import Guesser, Sentences
from torch import Tensor, distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

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
    distributed.init_process_group()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, GLOBAL_BATCH // distributed.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(guesser)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for words, targets in loader:
            update(optimizer, cross_entropy(model(words).mT, targets))


if __name__ == "__main__":
    main()
