"""Small models of four kinds, to profile on a CPU: residual, convolutional, attention, embeddings.

Each factory returns a workload; `srifty profile benchmarks.profile_models:resnet` works too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from srifty.profiling.workload import Workload

_CLASSES = 10


class _Residual(nn.Module):
    """Two 3x3 convolutions with BatchNorm around a shortcut (He 2016, figure 2)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the block's output."""
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class _Bert(nn.Module):
    """Token and position embeddings, a few encoder layers, a linear head."""

    def __init__(self, words: int, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns the logits of every token."""
        return self.head(self.encoder(self.words(tokens) + self.positions))


class _Dlrm(nn.Module):
    """Embedding bags and a dense part, their pairwise products, then a dense top (Naumov 2019)."""

    def __init__(self, tables: int, rows: int, width: int, dense: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, width))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 128), nn.ReLU(), nn.Linear(128, 1))
        first, second = torch.triu_indices(tables + 1, tables + 1, offset=1)
        self.register_buffer("first", first)
        self.register_buffer("second", second)

    def forward(self, dense: torch.Tensor, bags: list[torch.Tensor]) -> torch.Tensor:
        """Returns a logit per sample."""
        below = self.bottom(dense)
        found = [table(bag) for table, bag in zip(self.tables, bags, strict=True)]
        parts = torch.stack([below, *found], dim=1)
        products = torch.bmm(parts, parts.transpose(1, 2))[:, self.first, self.second]
        return self.top(torch.cat([below, products], dim=1)).squeeze(1)


def _image_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def _images(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 3, 32, 32), torch.randint(_CLASSES, (size,))


def resnet() -> Workload:
    """Returns a residual network of 7 convolutions on 32 x 32 images."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        _Residual(16, 16, 1),
        _Residual(16, 32, 2),
        _Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, _CLASSES),
    )
    return Workload("resnet", model, _image_loss, _images)


def vgg() -> Workload:
    """Returns plain 3x3 convolutions with pooling between, and a wide dense head."""
    layers: list[nn.Module] = []
    before = 3
    for width in (16, 32, 64):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    head = [nn.Flatten(), nn.Linear(64 * 16, 512), nn.ReLU(), nn.Linear(512, _CLASSES)]
    return Workload("vgg", nn.Sequential(*layers, *head), _image_loss, _images)


def bert() -> Workload:
    """Returns a two-layer encoder on sequences of 32 tokens."""
    words, length = 1000, 32
    model = _Bert(words, 128, 2, length)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        tokens, targets = batch
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    def make_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(words, (size, length)), torch.randint(words, (size, length))

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return Workload("bert", model, loss, make_batch, optimizer, unit="sequence", seq_len=length)


def dlrm() -> Workload:
    """Returns eight embedding bags of 20,000 rows beside a dense part."""
    tables, rows, width, dense, per_bag = 8, 20_000, 16, 13, 4
    model = _Dlrm(tables, rows, width, dense)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        features, bags, clicked = batch
        return functional.binary_cross_entropy_with_logits(model(features, bags), clicked)

    def make_batch(size: int) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
        bags = [torch.randint(rows, (size, per_bag)) for _ in range(tables)]
        return torch.randn(size, dense), bags, torch.randint(2, (size,)).float()

    return Workload("dlrm", model, loss, make_batch)


FACTORIES = {"resnet": resnet, "vgg": vgg, "bert": bert, "dlrm": dlrm}
