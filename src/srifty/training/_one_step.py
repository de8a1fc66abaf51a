"""The gradient of one step: of one worker's passes, or of all workers played one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from srifty._torch import Module, Tensor, torch
from srifty.errors import InputError
from srifty.training._session import Session, session_of
from srifty.training.passes import passes
from srifty.training.share import Share

Loss: TypeAlias = Callable[[Module, Any], Tensor]


@dataclass(frozen=True)
class StepGradient:
    """What a step's backward passes leave.

    Attributes:
        of: the gradient of each parameter that has one, by name.
        loss: the step's loss.
    """

    of: dict[str, Tensor]
    loss: float


@dataclass
class _Counts:
    """Item counts by the place of their `item_total` among those of one pass.

    Attributes:
        sums: of each place, over all passes so far.
        place: of the next call.
    """

    sums: list[Tensor] = field(default_factory=list[Tensor])
    place: int = 0

    def record(self, count: Tensor) -> Tensor:
        """Adds a count; returns it, for want of the total."""
        if self.place == len(self.sums):
            self.sums.append(torch.zeros_like(count))
        self.sums[self.place] += count
        self.place += 1
        return count

    def recall(self, count: Tensor) -> Tensor:
        """Returns the sum in place of a count."""
        total = self.sums[self.place].to(count.device)
        self.place += 1
        return total


def quiet_copy(model: Module) -> Module:
    """Returns a copy in training mode whose layers draw no random numbers."""
    copied = copy.deepcopy(model).train()
    for module in copied.modules():
        # By name: torch's common base of its dropouts is private, and they are many.
        if "Dropout" in type(module).__name__:
            module.eval()
        if isinstance(module, (torch.nn.MultiheadAttention, torch.nn.RNNBase)):
            module.dropout = 0.0
    return copied


def counts_of(model: Module, loss: Loss, parts: Sequence[Any], share: Share) -> list[Tensor]:
    """Returns a worker's items of one step, one number for each `item_total` of a pass."""
    counts = _Counts()
    device = next(iter(model.parameters())).device
    recorded = Session(share, device=device, adder=counts.record)
    with session_of(recorded), torch.no_grad():
        for batch in parts:
            counts.place = 0
            loss(model, batch)
    return counts.sums


def gradient_of(
    model: Module,
    loss: Loss,
    parts: Sequence[Any],
    share: Share,
    totals: Sequence[Tensor] | None,
) -> StepGradient:
    """Returns what a worker's passes leave in a model.

    Args:
        model: whose gradients are cleared first; wrapped for a group of processes, or bare.
        loss: as the user makes it.
        parts: the batches of the passes.
        share: of the worker.
        totals: items of the step by place; None to have the workers add them up as in training.

    Raises:
        InputError: a loss is no scalar that depends on the parameters.
    """
    counts = _Counts([] if totals is None else list(totals))
    adder = None if totals is None else counts.recall
    model.zero_grad(set_to_none=True)
    value = 0.0
    device = next(iter(model.parameters())).device
    with session_of(Session(share, device=device, adder=adder)):
        for batch in passes(model, parts):
            counts.place = 0
            found: Any = loss(model, batch)
            if not isinstance(found, torch.Tensor) or found.dim() > 0 or not found.requires_grad:
                raise InputError(
                    "verify's loss must return a scalar tensor that depends on the parameters"
                )
            found.backward()
            value += float(found.detach())
    bare = getattr(model, "module", model) if hasattr(model, "no_sync") else model
    gradients = {
        name: parameter.grad.detach()
        for name, parameter in bare.named_parameters()
        if parameter.grad is not None
    }
    return StepGradient(gradients, value)


def played_gradient(
    model: Module, loss: Loss, parts_of: Callable[[Share], Sequence[Any]], share: Share
) -> StepGradient:
    """Returns the mean of all workers' gradients, one process doing what each would do.

    Args:
        model: is copied for each worker.
        loss: as the user makes it.
        parts_of: returns the batches of a worker's passes.
        share: of any of the workers.

    Raises:
        InputError: workers count different kinds of items.
    """
    workers = [share.of_rank(rank) for rank in range(share.world_size)]
    counted = [counts_of(quiet_copy(model), loss, parts_of(each), each) for each in workers]
    if len({len(counts) for counts in counted}) > 1:
        raise InputError("all workers must call item_loss (or item_total) equally often in a pass")
    totals = [torch.stack(counts).sum(0) for counts in zip(*counted, strict=True)]
    gradients: dict[str, Tensor] = {}
    value = 0.0
    for each in workers:
        one = gradient_of(quiet_copy(model), loss, parts_of(each), each, totals)
        value += one.loss / share.world_size
        for name, gradient in one.of.items():
            part = gradient / share.world_size
            gradients[name] = gradients[name] + part if name in gradients else part
    return StepGradient(gradients, value)
