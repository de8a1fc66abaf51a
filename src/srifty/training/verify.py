"""A proof on demand: one step split over the workers against the same step in one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from srifty._torch import Module, Tensor, torch
from srifty.errors import InputError
from srifty.training._agreement import all_agree
from srifty.training._one_step import (
    Loss,
    StepGradient,
    counts_of,
    gradient_of,
    played_gradient,
    quiet_copy,
)
from srifty.training._session import Session, session_of
from srifty.training.batch_norm import (
    SyncBatchNorm,
    has_plain_batch_norm,
    has_sync_batch_norm,
    sync_batch_norm,
)
from srifty.training.distribute import device_of, distribute, join
from srifty.training.rows import rows
from srifty.training.share import Share

Part: TypeAlias = Callable[[Any, slice], Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """How far the gradient of a split step is from that of the same step in one process.

    Attributes:
        share: how the step was split.
        simulated: whether one process played all workers; else they were real.
        difference: largest difference of any element of the gradient, as a fraction of the largest
            element of the one process's gradient.
        worst: the parameter in which it was found.
        loss_difference: of the losses, as a fraction of the one process's.
        noise: the same as `difference` between two runs in one process that draw other random
            numbers; above 0 where the model or its loss is random.
        tolerance: the difference up to which they agree.
        notes: what a reader should know, in sentences.
    """

    share: Share
    simulated: bool
    difference: float
    worst: str
    loss_difference: float
    noise: float
    tolerance: float
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether gradient and loss are the same within the tolerance."""
        return max(self.difference, self.loss_difference) <= self.tolerance

    def __str__(self) -> str:
        verdict = "agrees with" if self.agrees else "DIFFERS from"
        how = "played by one process" if self.simulated else "real processes"
        return " ".join(
            (
                f"One step on {self.share.world_size} workers ({how}) {verdict} one process: "
                f"gradient {self.difference:.1e} (in {self.worst}), loss "
                f"{self.loss_difference:.1e}, tolerance {self.tolerance:.0e}.",
                *self.notes,
            )
        )


def verify(
    model: Module,
    loss: Loss,
    batch: Any,
    share: Share,
    *,
    part: Part | None = None,
    tolerance: float | None = None,
    whole_passes: int = 1,
    **options: Any,
) -> Verification:
    """Returns how one step split over the workers compares with the same step in one process.

    Under torchrun each worker computes its part, and the whole as well; all workers call it with
    the same batch. Without torchrun one process plays the workers one after the other. Model and
    torch's random numbers stay as they are: copies of the model are used, without dropout.

    Args:
        model: as it was before `distribute`, or what that returned.
        loss: called with a model and a part of the batch, returns the loss as the script makes it,
            by `mean_loss`, `sum_loss` or `item_loss` (with the pass's own count, also where there
            are several passes).
        batch: `share.global_batch` samples.
        share: how to split; its rank does not matter without torchrun.
        part: returns the samples of a batch that a slice names; if left out, rows of its tensors,
            which may lie in tuples, lists and mappings.
        tolerance: the difference up to which the two agree; by default 1e-10 for float64, 1e-5 for
            float32, 1e-2 for shorter types. With autocast, give that of its type.
        whole_passes: passes of the one process, where the batch does not fit into memory at once.
        options: for `distribute`, under torchrun.

    Raises:
        InputError: the batch has another size or differs between workers, or the model exchanges
            statistics in its forward pass and there are no processes to do so.
    """
    cut = part or rows
    if part is None:
        _require_size(batch, share.global_batch)
    parallel = torch.nn.parallel.DistributedDataParallel
    plain: Any = model.module if isinstance(model, parallel) else model
    device = device_of(plain)
    real = share.world_size > 1 and _has_processes()
    devices = [device] if device.type == "cuda" else []
    # `distribute` opens a session, which is to end with the step.
    with torch.random.fork_rng(devices), session_of(Session(share)):
        torch.manual_seed(0)
        if real:
            split, plain = _real_gradient(plain, loss, batch, share, cut, options)
        else:
            _require_no_exchange(plain, share)
            split = played_gradient(plain, loss, lambda one: _parts(batch, one, cut), share)
        alone = Share(0, (share.global_batch,), (whole_passes,))
        torch.manual_seed(0)
        whole = _whole_gradient(plain, loss, batch, alone, cut)
        torch.manual_seed(1)
        again = _whole_gradient(plain, loss, batch, alone, cut)
    difference, worst = _furthest(split, whole)
    loss_difference = abs(split.loss - whole.loss) / (abs(whole.loss) or 1.0)
    if real:
        difference, loss_difference = _largest((difference, loss_difference), device)
    limit = _tolerance(plain) if tolerance is None else tolerance
    noise = _furthest(again, whole)[0]
    return Verification(
        share=share,
        simulated=not real,
        difference=difference,
        worst=worst,
        loss_difference=loss_difference,
        noise=noise,
        tolerance=limit,
        notes=_notes(plain, share, noise, limit),
    )


def _has_processes() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and (
        distributed.is_initialized() or distributed.is_torchelastic_launched()
    )


def _require_no_exchange(model: Module, share: Share) -> None:
    if share.world_size > 1 and has_sync_batch_norm(model):
        raise InputError(
            "one process cannot play workers that exchange statistics in their forward pass "
            "(SyncBatchNorm); run verify under torchrun"
        )


def _parts(batch: Any, share: Share, part: Part) -> list[Any]:
    return [part(batch, where) for where in share.parts]


def _whole_gradient(
    model: Module, loss: Loss, batch: Any, share: Share, part: Part
) -> StepGradient:
    """Returns the gradient of one process, whose batch normalisation exchanges nothing."""

    def alone() -> Module:
        copied = quiet_copy(model)
        if has_sync_batch_norm(copied):
            copied = sync_batch_norm(copied)
        for module in copied.modules():
            if isinstance(module, SyncBatchNorm):
                module.alone = True
        return copied

    parts = _parts(batch, share, part)
    return gradient_of(alone(), loss, parts, share, counts_of(alone(), loss, parts, share))


def _real_gradient(
    model: Module, loss: Loss, batch: Any, share: Share, part: Part, options: Mapping[str, Any]
) -> tuple[StepGradient, Module]:
    """Returns the gradient that training would step with, and the model that all workers have."""
    device = device_of(model)
    join(device)
    parallel: Any = distribute(quiet_copy(model), share, **options)
    if not all_agree(_print_of(batch), None, device):
        raise InputError(
            "verify needs the same batch on all workers; make it from the same seed on each"
        )
    same = quiet_copy(parallel.module)
    parts = _parts(batch, share, part)
    totals: list[Tensor] | None = None
    if max(share.accumulations) > 1:
        totals = counts_of(quiet_copy(same), loss, parts, share)
        for total in totals:
            torch.distributed.all_reduce(total)
    found = gradient_of(parallel, loss, parts, share, totals)
    mean = torch.tensor(found.loss / share.world_size, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(mean)
    return StepGradient(found.of, float(mean)), same


def _furthest(one: StepGradient, other: StepGradient) -> tuple[float, str]:
    """Returns the largest difference of any element, relative to the largest element, and where."""
    scale = max((float(g.abs().max()) for g in other.of.values() if g.numel()), default=0.0)
    worst, where = 0.0, "no parameter"
    for name in sorted({*one.of, *other.of}):
        first, second = one.of.get(name), other.of.get(name)
        # A parameter that nothing used has no gradient in one and zeros in the other.
        first = torch.zeros_like(second) if first is None else first
        second = torch.zeros_like(first) if second is None else second
        if first.numel():
            apart = float((first - second).abs().max()) / (scale or 1.0)
            if not apart <= worst:  # NaN is the worst
                worst, where = (math.inf if math.isnan(apart) else apart), name
    return worst, where


def _largest(figures: tuple[float, float], device: Any) -> tuple[float, float]:
    values = torch.tensor(figures, dtype=torch.float64, device=device).nan_to_num(nan=math.inf)
    torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
    return float(values[0]), float(values[1])


def _tolerance(model: Module) -> float:
    eps = max((torch.finfo(p.dtype).eps for p in model.parameters()), default=1e-7)
    return 1e-10 if eps < 1e-12 else 1e-5 if eps < 1e-6 else 1e-2


def _notes(model: Module, share: Share, noise: float, tolerance: float) -> tuple[str, ...]:
    notes: list[str] = []
    if noise > tolerance:
        notes.append(
            f"Two runs of one process differ by {noise:.1e}: the model or the loss draws random "
            "numbers (functional dropout?), so nothing can be told."
        )
    if share.world_size > 1 and has_plain_batch_norm(model):
        notes.append(
            "Plain batch normalisation takes each worker's batch for itself, which no weighting "
            "can undo; sync_batch_norm(model) can."
        )
    return tuple(notes)


def _tensors(batch: Any) -> list[Tensor]:
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        batch = list(cast("Mapping[Any, Any]", batch).values())
    if isinstance(batch, (tuple, list)):
        return [tensor for one in cast("list[Any]", batch) for tensor in _tensors(one)]
    return []


def _require_size(batch: Any, samples: int) -> None:
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in _tensors(batch)}
    if sizes != {samples}:
        found = " and ".join(map(str, sorted(sizes))) or "no tensors"
        raise InputError(
            f"verify needs a batch whose tensors have {samples} rows, the global batch, not "
            f"{found}; give such a batch, or part(batch, slice) that cuts yours"
        )


def _print_of(batch: Any) -> bytes:
    sums = [float(tensor.detach().to(torch.float64).sum()) for tensor in _tensors(batch)]
    return repr(sums).encode()
