"""Small-to-real models whose work is known from their published architectures."""

import torch
from torch import nn
from torch.nn import functional

from srifty.profiling.workload import Workload


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.short = None
        if stride > 1 or channels != out:
            self.short = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        left = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        left = functional.relu(self.bn2(self.conv2(left)), inplace=True)
        left = self.bn3(self.conv3(left))
        left += x if self.short is None else self.short(x)
        return functional.relu(left, inplace=True)


class ResNet50(nn.Module):
    """ResNet-50 v1.5."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks, channels = [], 64
        for stage, (width, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for index in range(depth):
                blocks.append(Bottleneck(channels, width, 2 if stage and not index else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class Vgg16(nn.Module):
    """VGG-16 with batch normalisation."""

    def __init__(self):
        super().__init__()
        parts, channels = [], 3
        for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(depth):
                parts += [nn.Conv2d(channels, width, 3, 1, 1), nn.BatchNorm2d(width)]
                parts += [nn.ReLU(inplace=True)]
                channels = width
            parts += [nn.MaxPool2d(2)]
        self.features = nn.Sequential(*parts)
        self.head = nn.Sequential(
            nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Linear(4096, 4096), nn.ReLU(True)
        )
        self.out = nn.Linear(4096, 1000)

    def forward(self, x):
        return self.out(self.head(self.features(x).flatten(1)))


class Encoder(nn.Module):
    """One transformer block behind a token embedding whose weights the output shares."""

    def __init__(self, tied=True, vocabulary=1000, width=64, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.heads = heads
        if tied:
            self.out.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + mixed.reshape(batch, length, width)
        return self.out(x + self.narrow(functional.gelu(self.wide(x))))


class Tables(nn.Module):
    """Embedding bags and a perceptron."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in range(4))
        self.top = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids):
        return self.top(torch.cat([bag(ids[:, i]) for i, bag in enumerate(self.bags)], 1))


def images(model, size=224, classes=1000, **rest):
    return Workload(
        name=type(model).__name__,
        model=model,
        loss=lambda net, batch: functional.cross_entropy(net(batch[0]), batch[1]),
        make_batch=lambda n: (torch.zeros(n, 3, size, size), torch.zeros(n, dtype=torch.long)),
        **rest,
    )


def tokens(model, length=16, **rest):
    return Workload(
        name=type(model).__name__,
        model=model,
        loss=lambda net, ids: functional.cross_entropy(net(ids).flatten(0, 1), ids.flatten()),
        make_batch=lambda n: torch.zeros(n, length, dtype=torch.long),
        **rest,
    )


def clicks(model):
    return Workload(
        name=type(model).__name__,
        model=model,
        loss=lambda net, ids: net(ids).square().mean(),
        make_batch=lambda n: torch.zeros(n, 4, 3, dtype=torch.long),
    )
