"""The script that Figure 8's run trains: a small network, really trained, on 1,024 samples a step.

The pace is that of the GPUs that are planned with; gradients, exchanges and checkpoints are real.
With `FIGURE8_FINAL` in its environment, worker 0 writes the final parameters there.
"""

import json
import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

import srifty.training as st

STEPS, GLOBAL_BATCH, FEATURES, CLASSES = 400, 1024, 16, 4


class Points(Dataset[tuple[Tensor, Tensor]]):
    """Points around the corners of a cube, in memory."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(CLASSES, (count,), generator=generator)
        centres = torch.randn(CLASSES, FEATURES, generator=generator)
        self.points = centres[self.labels] + torch.randn(count, FEATURES, generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index], self.labels[index]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        return self.points[indices], self.labels[indices]


def main() -> None:
    """Trains, alone or under a launcher."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    share = st.current_share(global_batch=GLOBAL_BATCH)
    dataset = Points(GLOBAL_BATCH * 20)
    sampler = st.GlobalBatchSampler(dataset, share, epochs=STEPS // 20)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=lambda batch: batch)
    network = nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, CLASSES))
    model = st.distribute(network, share)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run = st.Run(share, {"model": model, "optimizer": optimizer}, save_every=25)
    for _, batches in st.steps(loader, run, in_passes=True):
        optimizer.zero_grad()
        for points, labels in st.passes(model, batches):
            losses = cross_entropy(model(points), labels, reduction="none")
            st.mean_loss(losses).backward()
        optimizer.step()
    final = os.environ.get("FIGURE8_FINAL")
    if final and run.finished and share.rank == 0:
        values = torch.cat([value.detach().flatten() for value in network.parameters()])
        Path(final).write_text(json.dumps(values.tolist()), encoding="utf-8")


if __name__ == "__main__":
    main()
