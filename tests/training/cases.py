"""Small trainings, each as one process would do it in plain torch and as srifty's workers do.

The one process's loss is written without srifty: it is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import srifty.training as st

STEPS = 20
FEATURES, ITEMS = 6, 5


class Net(nn.Module):
    """Some values per sample; one branch only for flagged samples, another for none."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, ITEMS))
        self.branch = nn.Linear(FEATURES, ITEMS)
        self.never = nn.Linear(2, 2)

    def forward(self, x, flagged=None):
        y = self.body(x)
        if flagged is not None and bool(flagged.any()):
            y = y + flagged[:, None] * self.branch(x)
        return y


class Body(nn.Module):
    """The same without branches."""

    def __init__(self):
        super().__init__()
        self.body = Net().body

    def forward(self, x):
        return self.body(x)


class Normed(nn.Module):
    """Images through a convolution and batch normalisation of both kinds."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 2)
        self.wide = nn.BatchNorm2d(3)
        self.line = nn.Linear(3, 4)
        self.flat = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, ITEMS)

    def forward(self, x):
        images = x[:, None, :, None] * x[:, None, None, :]
        y = torch.relu(self.wide(self.conv(images))).mean((2, 3))
        return self.head(torch.tanh(self.flat(self.line(y))))


def batch_of(step, size, dtype):
    """The global batch of a step: the later samples are larger, so that weights matter."""
    generator = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
    x = x * torch.linspace(0.5, 2, size, dtype=torch.float64)[:, None]
    y = torch.randn(size, ITEMS, generator=generator, dtype=torch.float64)
    valid = torch.rand(size, ITEMS, generator=generator) < torch.linspace(0.2, 1, size)[:, None]
    flagged = (torch.arange(size) == 0).to(dtype)
    return {"x": x.to(dtype), "y": y.to(dtype), "valid": valid, "flagged": flagged}


def rows(batch, where):
    return {key: value[where] for key, value in batch.items()}


def errors(model, batch):
    return (model(batch["x"]) - batch["y"]).square()


def branch_errors(model, batch):
    return (model(batch["x"], batch["flagged"]) - batch["y"]).square()


@dataclass(frozen=True)
class Case:
    """One way to train.

    Attributes:
        share: of any worker.
        whole: the loss of one process, in plain torch.
        part: the loss of one pass, by srifty; also given the total of the items.
        model: makes it.
        change: what is changed in each global batch.
        counts: whether items are counted beforehand, as with several passes.
        clip: the largest norm of the gradient.
        scaled: whether a gradient scaler is used.
        autocast: whether the forward pass runs in bfloat16.
        synced: whether batch normalisation is synchronised.
        options: of `distribute`.
    """

    share: st.Share
    whole: Callable[..., Any]
    part: Callable[..., Any]
    model: Callable[[], nn.Module] = Body
    change: Callable[[dict], None] = lambda batch: None
    counts: bool = False
    clip: float | None = None
    scaled: bool = False
    autocast: bool = False
    synced: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def mean_whole(model, batch):
    return errors(model, batch).mean()


def mean_part(model, batch, total):
    return st.mean_loss(errors(model, batch).mean(1))


def sum_whole(model, batch):
    return errors(model, batch).sum() / 50


def sum_part(model, batch, total):
    return st.sum_loss(errors(model, batch).sum() / 50)


def items_whole(model, batch):
    return errors(model, batch)[batch["valid"]].mean()


def items_part(model, batch, total):
    found = errors(model, batch)[batch["valid"]].sum()
    return st.item_loss(found, batch["valid"].sum() if total is None else total)


def branch_whole(model, batch):
    return branch_errors(model, batch).mean()


def branch_part(model, batch, total):
    return st.mean_loss(branch_errors(model, batch).mean(1))


def local_mean_part(model, batch, total):
    return errors(model, batch).mean()


def several_whole(model, batch):
    """A mean, a masked mean, and a term of the weights alone."""
    weights = sum(p.square().sum() for p in model.parameters())
    return mean_whole(model, batch) + 0.5 * items_whole(model, batch) + 0.01 * weights


def several_part(model, batch, total):
    weights = sum(p.square().sum() for p in model.parameters())
    parts = mean_part(model, batch, total) + 0.5 * items_part(model, batch, total)
    return parts + 0.01 * weights


def silence(first, last):
    """Leaves some samples without a valid item."""

    def change(batch):
        batch["valid"][first:last] = False

    return change


def split_cases(share):
    """The cases whose result must equal one process's, for one split of one pass each."""
    empty = share.of_rank(share.world_size - 1)
    silent = silence(empty.start, empty.start + empty.local_batch)
    passes = tuple(min(2 + rank % 2, b) for rank, b in enumerate(share.local_batches))
    several = st.Share(0, share.local_batches, passes)
    even_parts = st.Share(0, share.local_batches, share.local_batches)
    return {
        "mean": Case(share, mean_whole, mean_part),
        "sum": Case(share, sum_whole, sum_part),
        "items": Case(share, items_whole, items_part),
        "several losses": Case(share, several_whole, several_part),
        "none valid": Case(share, items_whole, items_part, change=silent),
        "accumulation": Case(several, mean_whole, mean_part),
        "accumulated sums": Case(several, sum_whole, sum_part),
        "accumulated items": Case(several, items_whole, items_part, counts=True, change=silent),
        "bucket views": Case(
            several, items_whole, items_part, counts=True, options={"gradient_as_bucket_view": True}
        ),
        "clipping": Case(several, mean_whole, mean_part, clip=0.3),
        "unused": Case(
            share, branch_whole, branch_part, Net, options={"find_unused_parameters": True}
        ),
        "scaler": Case(several, mean_whole, mean_part, scaled=True, clip=0.3),
        "static graph": Case(share, mean_whole, mean_part, options={"static_graph": True}),
        "local mean": Case(even_parts, mean_whole, local_mean_part, options={"loss": "local-mean"}),
        "synced": Case(share, mean_whole, mean_part, Normed, synced=True),
        "synced items": Case(share, items_whole, items_part, Normed, synced=True, change=silent),
    }


def made(case, dtype):
    torch.manual_seed(7)
    return case.model().to(dtype)


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)


def state_of(model):
    """All parameters and statistics in one vector, in 64 bits."""
    named = model.state_dict()
    tensors = [named[name] for name in sorted(named)]
    return torch.cat([t.detach().flatten().to(torch.float64) for t in tensors])


def _cast(case):
    return torch.autocast("cpu", torch.bfloat16) if case.autocast else nullcontext()


def train_whole(case, dtype):
    """Returns the state after one process's training."""
    model = made(case, dtype)
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        batch = batch_of(step, case.share.global_batch, dtype)
        case.change(batch)
        optimizer.zero_grad()
        with _cast(case):
            loss = case.whole(model, batch)
        loss.backward()
        if case.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        optimizer.step()
    return state_of(model)


def train_split(case, dtype, rank):
    """Returns the state after the workers' training, and the loss and norms of each step."""
    share = case.share.of_rank(rank)
    model = made(case, dtype)
    if case.synced:
        model = st.sync_batch_norm(model)
    bare, model = model, st.distribute(model, share, **case.options)
    optimizer = optimizer_of(model)
    scaler = torch.amp.GradScaler("cpu", enabled=case.scaled)
    steps = []
    for step in range(STEPS):
        batch = batch_of(step, share.global_batch, dtype)
        case.change(batch)
        parts = [rows(batch, where) for where in share.parts]
        total = None
        if case.counts:
            total = st.item_total(sum(part["valid"].sum() for part in parts))
        optimizer.zero_grad()
        value = 0.0
        for part in st.passes(model, parts):
            with _cast(case):
                loss = case.part(model, part, total)
            if case.options.get("loss") == "local-mean":
                loss = loss / share.accumulation
            scaler.scale(loss).backward()
            value += loss.item()
        norm = 0.0
        if case.clip is not None:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), case.clip).item()
        scaler.step(optimizer)
        scaler.update()
        steps.append((value, norm))
    return state_of(bare), torch.tensor(steps, dtype=torch.float64)


def train_plain(case, dtype, rank, hook=None):
    """Returns the state after plain DistributedDataParallel's, each worker's mean its loss."""
    share = case.share.of_rank(rank)
    model = made(case, dtype)
    bare, model = model, DistributedDataParallel(model, find_unused_parameters=case.model is Net)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = optimizer_of(model)
    here = slice(share.start, share.start + share.local_batch)
    for step in range(STEPS):
        batch = batch_of(step, share.global_batch, dtype)
        case.change(batch)
        optimizer.zero_grad()
        with _cast(case):
            loss = case.whole(model, rows(batch, here))
        loss.backward()
        optimizer.step()
    return state_of(bare)
