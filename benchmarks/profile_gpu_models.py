"""The models that are profiled on a GPU, of the sizes that people train; and small ones of a kind.

ResNet-50 (He 2016, table 1), a decoder of GPT-2's size with low-rank adapters (Hu 2021), and an
encoder of BERT-base's size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from srifty.profiling.workload import Workload


class _Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a shortcut; the last is four times as wide."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if before != after or stride > 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the block's output."""
        return functional.relu(self.body(x) + self.shortcut(x))


class _Adapted(nn.Module):
    """A frozen linear layer and a trained product of two thin ones beside it (Hu 2021)."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the layer's output."""
        return self.linear(x) + self.up(self.down(x))


class _Block(nn.Module):
    """Attention and a wide part, each after a norm and around a shortcut."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm, self.wide_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed: nn.Module = nn.Linear(width, 3 * width)
        self.joined: nn.Module = nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the block's output."""
        batch, length, width = x.shape
        parts = self.mixed(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts
        )
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.wide_norm(x))


class _Transformer(nn.Module):
    """Token and position embeddings, blocks, and the token embedding again as the head."""

    def __init__(
        self, words: int, width: int, heads: int, blocks: int, length: int, *, causal: bool
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_Block(width, heads, causal=causal) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns the logits of every token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.words.weight)


def _resnet(name: str, width: int, depths: tuple[int, ...], pixels: int) -> Workload:
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    before = width
    for stage, depth in enumerate(depths):
        inner = width << stage
        for block in range(depth):
            layers.append(_Bottleneck(before, inner, 2 if stage and not block else 1))
            before = 4 * inner
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000)]
    model = nn.Sequential(*layers)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        images, labels = batch
        return functional.cross_entropy(model(images), labels)

    def make_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(size, 3, pixels, pixels), torch.randint(1000, (size,))

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return Workload(name, model, loss, make_batch, optimizer)


def _tokens(name: str, model: nn.Module, words: int, length: int) -> Workload:
    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        tokens, targets = batch
        return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

    def make_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randint(words, (size, length)), torch.randint(words, (size, length))

    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)
    return Workload(name, model, loss, make_batch, optimizer, unit="sequence", seq_len=length)


def _with_adapters(model: _Transformer, rank: int) -> _Transformer:
    model.requires_grad_(False)
    for block in model.blocks:
        block.mixed = _Adapted(block.mixed, rank)
        block.joined = _Adapted(block.joined, rank)
    return model


def resnet50() -> Workload:
    """Returns ResNet-50 on 224 x 224 images."""
    return _resnet("resnet50", 64, (3, 4, 6, 3), 224)


def gpt2_lora() -> Workload:
    """Returns adapters of rank 8 on a decoder of GPT-2's size (124 M), 512 tokens."""
    model = _Transformer(50_257, 768, 12, 12, 512, causal=True)
    return _tokens("gpt2-lora", _with_adapters(model, 8), 50_257, 512)


def bert_compiled() -> Workload:
    """Returns an encoder of BERT-base's size (110 M), 128 tokens."""
    model = _Transformer(30_522, 768, 12, 12, 128, causal=False)
    return _tokens("bert-base", model, 30_522, 128)


def tiny_resnet() -> Workload:
    """Returns the same kind of network, small."""
    return _resnet("tiny-resnet", 4, (1, 1), 32)


def tiny_lora() -> Workload:
    """Returns the same kind of adapters, small."""
    return _tokens(
        "tiny-lora", _with_adapters(_Transformer(50, 16, 2, 2, 8, causal=True), 2), 50, 8
    )
