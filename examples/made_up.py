"""Data made on the fly, and small models that learn from it, for the training examples."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

CLASSES, PIXELS = 10, 32
WORDS, LENGTH, MASK = 50, 24, 0


class Images(Dataset[tuple[Tensor, int]]):
    """Noisy images, each with the stripes of its class; an image depends on its number only."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = torch.Generator().manual_seed(index)
        label = index % CLASSES
        stripes = torch.sin(torch.arange(PIXELS) * (label + 1) * 0.3)
        return stripes + torch.randn(3, PIXELS, PIXELS, generator=noise), label


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.shortcut = nn.Conv2d(before, after, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Returns what the layers after it see."""
        inner = self.norms[0](self.first(images)).relu()
        return (self.norms[1](self.second(inner)) + self.shortcut(images)).relu()


def resnet() -> nn.Module:
    """Returns a small residual network."""
    blocks = [Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Sentences(Dataset[tuple[Tensor, Tensor]]):
    """Sentences in which each word follows from the one before; some words are masked.

    A sample is the words with some of them masked, and the words to guess: -100 where none is.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        chance = torch.Generator().manual_seed(index)
        first = torch.randint(1, WORDS, (1,), generator=chance)
        words = 1 + (first + 7 * torch.arange(LENGTH)) % (WORDS - 1)
        masked = torch.rand(LENGTH, generator=chance) < 0.15
        return words.where(~masked, MASK), words.where(masked, -100)


class Guesser(nn.Module):
    """A small transformer that guesses masked words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.places = nn.Parameter(torch.zeros(LENGTH, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(64, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Returns a score for each word at each place."""
        return self.out(self.layers(self.words(words) + self.places))
