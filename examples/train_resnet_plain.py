"""Trains a small residual network on images made on the fly."""

import torch
from made_up import Images, resnet
from torch import Tensor, distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

EPOCHS, GLOBAL_BATCH = 2, 64


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Makes one step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Trains, as torchrun starts it."""
    dataset = Images(640)
    distributed.init_process_group()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, GLOBAL_BATCH // distributed.get_world_size(), sampler=sampler)
    model = DistributedDataParallel(resnet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            update(optimizer, cross_entropy(model(images), labels))


if __name__ == "__main__":
    main()
