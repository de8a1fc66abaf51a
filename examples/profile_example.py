"""A factory for `srifty profile`: what a training script already has, returned as a `Workload`.

srifty profile profile_example:make_workload --max-batch 256 --gpu T4 -o mlp.profile.json
"""

import torch
from torch.nn import functional

from srifty.profiling.workload import Workload

FEATURES, CLASSES, SAMPLES = 256, 10, 4096


def make_workload() -> Workload:
    """Returns a small classifier, its optimizer, its batches and its loader."""
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(),
        torch.nn.Linear(1024, CLASSES),
    )

    def loss(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        features, labels = batch
        return functional.cross_entropy(model(features), labels)

    def make_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(size, FEATURES), torch.randint(CLASSES, (size,))

    def loader(workers: int) -> torch.utils.data.DataLoader:
        data = torch.utils.data.TensorDataset(*make_batch(SAMPLES))
        return torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=workers)

    return Workload(
        name="mlp",
        model=model,
        loss=loss,
        make_batch=make_batch,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        dataset_size=SAMPLES,
        loader=loader,
    )
