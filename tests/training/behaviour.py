"""What two workers find beside whole trainings: `work` for `tests.training.group`."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import srifty.training as st
from srifty.errors import InputError
from tests.training.cases import Body, Normed, batch_of, errors, rows

UNEVEN = (5, 3)


class Line(nn.Module):
    """y = w·x with w = 1."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x):
        return self.w * x


def everyones(value):
    """A number of each worker."""
    found = [torch.zeros(1, dtype=torch.float64) for _ in range(distributed.get_world_size())]
    distributed.all_gather(found, torch.tensor([value], dtype=torch.float64))
    return [one.item() for one in found]


def said(action):
    """What an action refuses with; all workers refuse, or none does."""
    try:
        action()
    except InputError as error:
        return str(error)
    return "nothing"


def unequal_means(rank):
    """Case: rank 0 has x = 1, 2, 3, rank 1 has 10; squared error to 0."""
    x = torch.tensor(([1.0, 2.0, 3.0], [10.0])[rank], dtype=torch.float64)
    share = st.Share.of(3, 1, rank=rank)
    found = {}
    for name, loss in (
        ("mean", lambda squares: st.mean_loss(squares)),
        ("sum", lambda squares: st.sum_loss(squares)),
    ):
        model = st.distribute(Line(), share)
        loss(model(x).square()).backward()
        found[name] = everyones(model.module.w.grad.item())
    for name, loss in (("plain mean", torch.mean), ("plain sum", torch.sum)):
        model = DistributedDataParallel(Line())
        loss(model(x).square()).backward()
        found[name] = everyones(model.module.w.grad.item())
    return found


def unequal_items(rank):
    """Case: two samples of 5 valid elements each beside one of 50."""
    elements = torch.ones(2, 50, dtype=torch.float64) if rank == 0 else torch.full((1, 50), 7.0)
    elements = elements.to(torch.float64)
    valid = torch.zeros(2, 50, dtype=torch.bool) if rank == 0 else torch.ones(1, 50).bool()
    if rank == 0:
        valid[:, :5] = True
    model = st.distribute(Line(), st.Share.of(2, 1, rank=rank))
    gradients = {}
    for name, mask in (
        ("some", valid),
        ("none here", valid & (rank == 1)),
        ("none anywhere", valid & False),
    ):
        model.zero_grad()
        st.item_loss(model(elements)[mask].sum(), mask.sum()).backward()
        gradients[name] = everyones(model.module.w.grad.item())
    return gradients


def pooled_statistics(rank):
    """Case: six zeros beside two fours, through batch normalisation that remembers one batch."""
    x = torch.tensor([[0.0]] * 6 if rank == 0 else [[4.0]] * 2, dtype=torch.float64)
    layer = st.sync_batch_norm(nn.BatchNorm1d(1, momentum=1.0, eps=0).double())
    y = layer(x)
    return {
        "mean": everyones(layer.running_mean.item()),
        "unbiased": everyones(layer.running_var.item()),
        "normalised": everyones(y[0].item()),
    }


def uncommon_layers(rank):
    """Synchronised layers of other make than a model's usual ones, against one process's."""
    share = st.Share.of(*UNEVEN, rank=rank)
    here = slice(share.start, share.start + share.local_batch)
    whole = torch.randn(8, 2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = {}
    for name, layer in (
        ("not affine", nn.BatchNorm1d(2, affine=False)),
        ("mean of all", nn.BatchNorm1d(2, momentum=None)),
        ("no statistics", nn.BatchNorm1d(2, track_running_stats=False)),
    ):
        ours = st.sync_batch_norm(copy.deepcopy(layer).double())
        layer = layer.double()
        apart = []
        for scale in (1.0, 3.0):
            one, other = (whole * scale).requires_grad_(), (whole * scale).requires_grad_()
            all_out, out = layer(one), ours(other[here])
            (all_out**3).sum().backward()
            (out**3).sum().backward()
            pairs = [(out, all_out[here]), (other.grad[here], one.grad[here])]
            pairs += zip(ours.buffers(), layer.buffers(), strict=True)
            apart += [(ours_ - theirs).abs().max().item() for ours_, theirs in pairs]
        found[name] = max(everyones(max(apart)))
    return found


def statistics_by_weight(rank):
    """Plain batch normalisation: its statistics before and after they are combined."""
    share = st.Share.of(*UNEVEN, rank=rank)
    generator = torch.Generator().manual_seed(5)
    whole = torch.randn(8, 1, 400, generator=generator, dtype=torch.float64)
    whole = whole + torch.arange(8, dtype=torch.float64)[:, None, None]
    layer = nn.BatchNorm1d(1, momentum=1.0).double()
    layer.running_mean.fill_(rank)
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(400, 1).double())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallel = st.distribute(model, share)
    begun = everyones(layer.running_mean.item())
    here = slice(share.start, share.start + share.local_batch)
    for _ in range(2):
        st.mean_loss(parallel(whole[here])[:, 0]).backward()
    apart = everyones(layer.running_mean.item())
    combined = []
    for _ in range(2):
        st.combine_statistics(parallel)
        combined.append([everyones(layer.running_mean.item()), everyones(layer.running_var.item())])
    return {
        "warned": [str(one.message) for one in caught],
        "begun": begun,
        "apart": apart,
        "combined": combined,
        "whole": [whole.mean().item(), whole.var().item()],
    }


def overflow_on_one_worker(rank):
    """A gradient scaler that meets infinity on worker 1 only."""
    model = st.distribute(Body(), st.Share.of(*UNEVEN, rank=rank))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x = torch.ones(UNEVEN[rank], 6) * (float("inf") if rank == 1 else 1.0)
    scaler.scale(st.mean_loss(model(x).square().mean(1) + x.sum())).backward()
    scaler.step(optimizer)
    scaler.update()
    moved = any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return {"scale": everyones(scaler.get_scale()), "moved": everyones(float(moved))}


def smaller_batch(rank):
    """The last step of an epoch: three samples for worker 0, none for worker 1."""
    batch = batch_of(0, 3, torch.float64)
    torch.manual_seed(1)
    model = Body().double()
    errors(model, batch).mean().backward()
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    parallel = st.distribute(model, st.Share.of(*UNEVEN, rank=rank))
    part = rows(batch, slice(0, 3) if rank == 0 else slice(3, 3))
    st.mean_loss(errors(parallel, part).mean(1), global_batch=3).backward()
    apart = max(
        (p.grad - w).abs().max().item() for p, w in zip(model.parameters(), whole, strict=True)
    )
    return everyones(apart)


def refusals(rank):
    share = st.Share.of(*UNEVEN, rank=rank)
    passes = st.Share(rank, UNEVEN, (2, 1))
    odd = st.Share(rank, UNEVEN, (2, 2))
    ours = st.sync_batch_norm(Normed())
    theirs = nn.SyncBatchNorm.convert_sync_batchnorm(Normed())
    mesh = distributed.device_mesh.init_device_mesh("cpu", (2,))
    sharded = fully_shard(Body(), mesh=mesh)
    x = torch.ones(UNEVEN[rank], 6)

    def unweighted():
        st.distribute(Body(), share)(x).mean().backward()

    def bare_count():
        model = st.distribute(Body(), passes)
        st.item_loss(model(x).sum(), 5)

    found = {
        "other rank": said(lambda: st.distribute(Body(), share.of_rank(1 - rank))),
        "other world": said(lambda: st.distribute(Body(), st.Share.of(1, 1, 1, rank=rank))),
        "other plan": said(lambda: st.distribute(Body(), st.Share.of(5, 3 + rank, rank=rank))),
        "passes": said(lambda: st.distribute(ours, passes)),
        "torch's": said(lambda: st.distribute(theirs, share)),
        "wrapped": said(lambda: st.distribute(DistributedDataParallel(Body()), share)),
        "sharded": said(lambda: st.distribute(sharded, share)),
        "uneven passes": said(lambda: st.distribute(Body(), odd, loss="local-mean")),
        "choice": said(lambda: st.distribute(Body(), share, compression="int8")),
        "unweighted": said(unweighted),
        "bare count": said(bare_count),
    }
    even = st.Share.of(4, 4, rank=rank)
    found["sharded and more"] = said(lambda: st.distribute(sharded, even, compression="fp16"))
    found["even and sharded"] = st.distribute(sharded, even) is sharded
    st.distribute(Body(), even)(x).mean().backward()  # nothing to weight, so nothing to refuse
    return found


def proofs(rank):
    """What `verify` finds with real workers."""
    share = st.Share.of(*UNEVEN, rank=rank)
    batch = batch_of(0, 8, torch.float64)

    def mean(model, part):
        return st.mean_loss(errors(model, part).mean(1))

    def items(model, part):
        return st.item_loss(errors(model, part)[part["valid"]].sum(), part["valid"].sum())

    def described(found):
        return {
            "agrees": found.agrees,
            "simulated": found.simulated,
            "apart": everyones(found.difference),
            "text": str(found),
        }

    dropped = nn.Sequential(Body(), nn.Dropout(0.5)).double()
    several = st.Share(rank, UNEVEN, (2, 1))
    synced = st.sync_batch_norm(Normed().double())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plain batch normalisation, which is looked for here
        normed = described(st.verify(Normed().double(), mean, batch, share))
    found = {
        "mean": described(st.verify(dropped, mean, batch, share)),
        "items": described(st.verify(Body().double(), items, batch, several, whole_passes=2)),
        "one pass": described(st.verify(Body().double(), items, batch, share)),
        "synced": described(st.verify(synced, mean, batch, share)),
        "normed": normed,
    }
    other = batch_of(rank, 8, torch.float64)
    found["other batch"] = said(lambda: st.verify(Body().double(), mean, other, share))
    return found


def work(rank, world_size):
    warnings.simplefilter("error")
    return {
        "unequal means": unequal_means(rank),
        "unequal items": unequal_items(rank),
        "pooled statistics": pooled_statistics(rank),
        "uncommon layers": uncommon_layers(rank),
        "statistics by weight": statistics_by_weight(rank),
        "overflow": overflow_on_one_worker(rank),
        "smaller batch": smaller_batch(rank),
        "proofs": proofs(rank),
        "refusals": refusals(rank),
    }
