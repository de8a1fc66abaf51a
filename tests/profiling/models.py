"""Small models with the oddities that real ones have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from srifty.profiling.workload import Workload


@dataclass(frozen=True)
class Case:
    model: nn.Module
    make_batch: Callable[[int], torch.Tensor]


def loss(model, batch):
    return model(batch).float().square().mean()


def workload(case, name="toy"):
    trainable = [p for p in case.model.parameters() if p.requires_grad]
    # Momentum takes no sparse gradients.
    optimizer = torch.optim.SGD(trainable, lr=1e-3)
    return Workload(name, case.model, loss, case.make_batch, optimizer)


def mlp():
    layers = [nn.Linear(256, 512)]
    for _ in range(8):
        layers += [nn.ReLU(), nn.Linear(512, 512)]
    return Case(nn.Sequential(*layers), lambda b: torch.randn(b, 256))


def cnn():
    layers, before = [], 3
    for after in (32, 64, 128, 256):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        before = after
    layers += [nn.Flatten(), nn.Linear(256 * 4, 512), nn.ReLU(), nn.Linear(512, 10)]
    return Case(nn.Sequential(*layers), lambda b: torch.randn(b, 3, 32, 32))


class Decoder(nn.Module):
    """A transformer whose registration order is not the order of use: the head comes first."""

    def __init__(self, width=128, layers=4, words=1000):
        super().__init__()
        self.head = nn.Linear(width, words)
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.head(self.body(self.words(tokens)))


def transformer():
    return Case(Decoder(), lambda b: torch.randint(1000, (b, 16)))


class PartlyUsed(nn.Module):
    """Some modules are never called, a bias has two names."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(600, 600)
        self.body = nn.Sequential(*(nn.Linear(600, 600) for _ in range(4)))
        self.spare = nn.Linear(600, 50)
        self.unused.bias = self.body[1].bias

    def forward(self, x):
        return self.body(x)


def unused():
    return Case(PartlyUsed(), lambda b: torch.randn(b, 600))


class Adapted(nn.Module):
    """Low-rank adapters on frozen weights, an output tied to its adapter, one 100 MB embedding."""

    def __init__(self, width=256, words=102_400, rank=8):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.base = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.base.requires_grad_(requires_grad=False)
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(4))
        self.up = nn.ModuleList(nn.Linear(rank, width, bias=False) for _ in range(4))
        self.first = nn.Linear(width, width)
        self.last = nn.Linear(width, width)
        self.last.weight = self.first.weight

    def forward(self, tokens):
        x = self.first(self.words(tokens))
        for base, down, up in zip(self.base, self.down, self.up, strict=True):
            x = functional.relu(base(x) + up(down(x)))
        return self.last(x)


def adapted():
    return Case(Adapted(), lambda b: torch.randint(1000, (b, 4)))


class Halves(nn.Module):
    """Half of the layers in bfloat16."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Sequential(*(nn.Linear(600, 600) for _ in range(4)))
        self.narrow = nn.Sequential(*(nn.Linear(600, 600) for _ in range(4))).bfloat16()

    def forward(self, x):
        for single, narrow in zip(self.wide, self.narrow, strict=True):
            x = narrow(single(x).bfloat16()).float()
        return x


def halves():
    return Case(Halves(), lambda b: torch.randn(b, 600))


class Sparse(nn.Module):
    """An embedding with sparse gradients between dense layers."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5000, 64, sparse=True)
        self.body = nn.Sequential(nn.Linear(64, 600), nn.Linear(600, 600), nn.Linear(600, 600))

    def forward(self, tokens):
        return self.body(self.words(tokens))


def sparse():
    return Case(Sparse(), lambda b: torch.randint(1000, (b, 4)))


class Checkpointed(nn.Module):
    """One block that is used twice, each time under checkpointing."""

    def __init__(self, *, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(64, 64)
        self.block = nn.Linear(64, 64)
        self.last = nn.Linear(64, 64)

    def forward(self, x):
        x = checkpoint(self.block, self.first(x), use_reentrant=self.reentrant)
        return checkpoint(self.block, self.last(x), use_reentrant=self.reentrant)


def checkpointed(*, reentrant):
    return Case(Checkpointed(reentrant=reentrant), lambda b: torch.randn(b, 64))


DDP_MODELS = {
    "mlp": mlp,
    "cnn": cnn,
    "transformer": transformer,
    "unused": unused,
    "adapted": adapted,
    "halves": halves,
    "sparse": sparse,
    "reentrant": lambda: checkpointed(reentrant=True),
}
