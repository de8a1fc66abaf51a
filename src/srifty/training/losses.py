"""Losses in which every sample (or item) of the global batch counts equally.

DistributedDataParallel averages gradients over the n workers. For the gradient of a sum over the
whole batch each worker must therefore give n times its own sum; for that of the mean over B samples
n/B times, which is n·b_i/B times its own mean. The factor is on the loss, so whatever handles
gradients afterwards (compression, accumulation, scaling, clipping) stays as it is. The mean over
the workers of the values returned here is the loss of the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srifty._torch import Tensor, torch
from srifty.errors import InputError
from srifty.training._session import session


@dataclass(frozen=True)
class ItemTotal:
    """The number of items of one global step, all workers and passes together.

    It is added up while the forward pass runs and awaited where a loss needs it.
    """

    _value: Tensor
    _work: Any

    def value(self) -> Tensor:
        """Returns the total as a tensor of one float64."""
        if self._work is not None:
            self._work.wait()
        return self._value


def mean_loss(per_sample: Tensor, *, global_batch: int | None = None) -> Tensor:
    """Returns a worker's part of the mean over all samples of the global batch, for `backward`.

    Args:
        per_sample: one loss for each sample of this pass, shape (samples,); may be empty.
        global_batch: samples of this global step, if it is not as large as planned and the batches
            do not come from `steps`, which knows.

    Raises:
        InputError: `per_sample` is no such vector, or holds more than the worker's share.
    """
    open_ = session()
    if per_sample.dim() != 1:
        raise InputError(
            f"mean_loss needs one loss per sample, shape (samples,), not {tuple(per_sample.shape)}:"
            ' make the loss with reduction="none" and average what belongs to one sample; losses '
            "per token or pixel go to item_loss(losses.sum(), losses.numel())"
        )
    share = open_.share
    samples = per_sample.shape[0]
    if global_batch is None:
        global_batch = open_.global_batch
    if global_batch is None and samples > share.local_batch:
        raise InputError(
            f"mean_loss got {samples} losses, but worker {share.rank}'s share is "
            f"{share.local_batch} of {share.global_batch} samples; load as many, or pass the "
            "global_batch of this step (outside a plan: to current_share)"
        )
    if global_batch is not None and global_batch < max(samples, 1):
        raise InputError(f"a global batch of {global_batch} cannot hold {samples} samples")
    scale = share.world_size / (global_batch or share.global_batch)
    return open_.note(_sum(per_sample) * scale)


def sum_loss(loss_sum: Tensor) -> Tensor:
    """Returns a worker's part of a sum over all samples of the global batch, for `backward`.

    Args:
        loss_sum: the sum over the samples of this pass; more than one value are added up.
    """
    open_ = session()
    return open_.note(_sum(loss_sum) * open_.share.world_size)


def item_loss(loss_sum: Tensor, count: Tensor | float | ItemTotal) -> Tensor:
    """Returns a worker's part of the mean over all items of the global batch, for `backward`.

    Items are what the loss counts: tokens that are not masked, pixels with a class, boxes, or
    weights of classes. How many there are is known only at run time, and differs between workers.
    A worker without any contributes a sum of 0; where nobody has any, gradients are 0.

    Args:
        loss_sum: the sum over the items of this pass (never their mean: without items that is NaN).
        count: the items of this pass, which one small allreduce adds up; where a step has several
            passes, what `item_total` returned for all of them.

    Raises:
        InputError: a bare count where some worker makes several passes.
    """
    if not isinstance(count, ItemTotal):
        if session().needs_total_beforehand:
            raise InputError(
                "item_loss needs the items of the whole step where a worker makes several passes: "
                "before them, total = item_total(count of all passes); then item_loss(sum, total)"
            )
        count = item_total(count)
    total = count.value()
    share = torch.where(total > 0, 1 / total, torch.zeros_like(total))
    open_ = session()
    scaled = _sum(loss_sum) * open_.share.world_size
    return open_.note(scaled * share.to(scaled))


def item_total(count: Tensor | float) -> ItemTotal:
    """Starts adding up the items of a global step, and returns the total to be.

    All workers call it once in each step (and once for each kind of item), in the same order.

    Args:
        count: items of all passes that this worker makes in the step.
    """
    open_ = session()
    counted = torch.as_tensor(count, device=open_.device).detach()
    # A new tensor, as it is summed in place; float64 counts exactly up to 2**53.
    value, work = open_.add_up(counted.sum(dtype=torch.float64))
    return ItemTotal(value, work)


def _sum(values: Tensor) -> Tensor:
    """Returns the sum; 16-bit losses are added in 32 bits, lest they overflow or vanish."""
    narrow = values.dtype in (torch.float16, torch.bfloat16)
    return values.sum(dtype=torch.float32) if narrow else values.sum()
