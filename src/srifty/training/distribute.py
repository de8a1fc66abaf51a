"""DistributedDataParallel for unequal shares."""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal

from srifty._torch import Module, torch
from srifty.errors import InputError
from srifty.training._agreement import all_agree
from srifty.training._session import Session, open_session, session
from srifty.training.batch_norm import (
    has_plain_batch_norm,
    has_running_statistics,
    has_sync_batch_norm,
)
from srifty.training.share import Share
from srifty.training.waits import Waits

Compression = Literal["fp16", "bf16"]
Loss = Literal["weighted", "local-mean"]
# Who sends buffers in each forward pass; the first, newer, replaces the second.
_BUFFER_OPTIONS = ("forward_sync_buffers", "broadcast_buffers")
_HOOKS = {"fp16": "fp16_compress_hook", "bf16": "bf16_compress_hook"}


def distribute(
    model: Module,
    share: Share,
    *,
    loss: Loss = "weighted",
    compression: Compression | None = None,
    process_group: Any = None,
    **options: Any,
) -> Module:
    """Returns the model as DistributedDataParallel, in which every sample counts equally.

    Losses come from `mean_loss`, `sum_loss` or `item_loss`, which carry the weights; so any
    communication hook, gradient scaler or clipping does its work as usual. Where the loss is out of
    reach (a framework's), `loss="local-mean"` weights gradients instead: each worker's loss is then
    the mean over its own samples of the step.

    The process group is made if there is none yet. In one process the model is returned as it is.

    Args:
        model: on its device; all workers give the same one.
        share: of this worker, usually `current_share()`.
        loss: `weighted` if this package's losses are used, `local-mean` if not.
        compression: gradients are sent as fp16 or bf16.
        process_group: whose workers train; None for all.
        options: of DistributedDataParallel, such as `find_unused_parameters`.

    Raises:
        InputError: the share does not fit the processes, differs between them, or asks of the model
            what it cannot do.
    """
    _require_choice("loss", loss, ("weighted", "local-mean"))
    _require_choice("compression", compression, (None, *_HOOKS))
    _require_even_passes(share, loss)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise InputError("distribute makes DistributedDataParallel itself; give it the bare model")
    _require_no_fsdp(model, share)
    if share.world_size == 1:
        open_session(Session(share))
        return model
    if not torch.distributed.is_available():
        raise InputError("this build of PyTorch lacks torch.distributed; install another")
    device = device_of(model)
    join(device)
    _require_same(share, process_group, device)
    _require_fitting_batch_norm(model, share, device)
    opened = Session(share, process_group, device)
    open_session(opened)
    if _is_fsdp(model):
        if compression or options:
            raise InputError("this model is sharded already: compression and options are FSDP's")
        return model
    kind: Any = torch.nn.parallel.DistributedDataParallel
    if has_running_statistics(model) and not options.keys() & set(_BUFFER_OPTIONS):
        # Else each step would begin with rank 0's statistics, whatever its share is.
        known = inspect.signature(kind).parameters
        options[next(name for name in _BUFFER_OPTIONS if name in known)] = False
        _send_buffers(model, process_group)
    parallel = kind(model, process_group=process_group, **options)
    opened.waits = Waits.of(parallel)
    hook = _hook(share, loss, compression)
    if hook is not None:
        parallel.register_comm_hook(process_group, hook)
    if loss == "weighted" and not share.is_even:
        _require_weighted_losses(model, share)
    return parallel


def _require_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _require_even_passes(share: Share, loss: Loss) -> None:
    """Refuses what a mean over each pass cannot express."""
    if loss == "weighted":
        return
    for rank in range(share.world_size):
        sizes = set(share.of_rank(rank).micro_batches)
        if len(sizes) > 1:
            raise InputError(
                f"worker {rank}'s passes hold {' and '.join(map(str, sorted(sizes)))} samples, so "
                'the mean of their means is not the mean of its samples; use loss="weighted"'
            )


def _is_fsdp(model: Module) -> bool:
    # What was never imported made no model; importing it takes long.
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    # The second is `fully_shard`'s, since torch 2.6.
    kinds = [getattr(fsdp, n, None) for n in ("FullyShardedDataParallel", "FSDPModule")]
    found = tuple(kind for kind in kinds if kind is not None)
    return any(isinstance(module, found) for module in model.modules())


def _require_no_fsdp(model: Module, share: Share) -> None:
    if not share.is_even and _is_fsdp(model):
        raise InputError(
            f"FSDP gathers parameters in step with all workers and is not supported with unequal "
            f"shares ({_described(share)}); plan for one GPU type, or use DistributedDataParallel "
            "(give distribute the model before it is sharded)"
        )


def device_of(model: Module) -> Any:
    """Returns the device of the model's first parameter."""
    parameter = next(iter(model.parameters()), None)
    return torch.device("cpu") if parameter is None else parameter.device


def join(device: Any) -> None:
    """Makes the process group of all of torchrun's processes, unless there is one."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")


def _require_same(share: Share, group: Any, device: Any) -> None:
    """Refuses a share that is not this process's, or of another split than the others'."""
    world_size = torch.distributed.get_world_size(group)
    rank = torch.distributed.get_rank(group)
    if (rank, world_size) != (share.rank, share.world_size):
        raise InputError(
            f"the share is worker {share.rank}'s of {share.world_size}, but this is process {rank} "
            f"of {world_size}; use current_share(), and start as many processes as it names"
        )
    if not all_agree(repr((share.local_batches, share.accumulations)).encode(), group, device):
        raise InputError(
            "the workers have different shares; give all of them the same SRIFTY_PLAN or "
            f"SRIFTY_SHARES (this one has {_described(share)})"
        )


def _require_fitting_batch_norm(model: Module, share: Share, device: Any) -> None:
    if has_sync_batch_norm(model) and share.passes_differ:
        raise InputError(
            "synchronised batch normalisation exchanges statistics in every pass, and here some "
            f"workers make more passes than others ({_described(share)}), so they would wait for "
            "ever; plan with the same accumulation for all, or use GroupNorm"
        )
    kind = torch.nn.SyncBatchNorm
    if device.type == "cpu" and any(isinstance(module, kind) for module in model.modules()):
        raise InputError(
            "torch's SyncBatchNorm does not run on a CPU; convert the model with "
            "srifty.training.sync_batch_norm(model)"
        )
    if has_plain_batch_norm(model) and not share.is_even:
        warnings.warn(
            "this model has plain batch normalisation, whose statistics depend on each worker's "
            "batch: unequal shares train another model than an equal split or one GPU would. "
            "srifty.training.sync_batch_norm(model) makes them equal; without it call "
            "combine_statistics(model) on all workers before saving or evaluating.",
            UserWarning,
            stacklevel=3,
        )


def _send_buffers(model: Module, group: Any) -> None:
    """Gives all workers rank 0's buffers, once, as DistributedDataParallel does by default."""
    source = 0 if group is None else torch.distributed.get_global_rank(group, 0)
    for buffer in model.buffers():
        torch.distributed.broadcast(buffer.detach(), source, group=group)


def _hook(share: Share, loss: Loss, compression: Compression | None) -> Callable[..., Any] | None:
    """Returns the communication hook; None for DistributedDataParallel's own, in C++."""
    hooks: Any = importlib.import_module(
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
    )
    sent = getattr(hooks, _HOOKS[compression]) if compression else hooks.allreduce_hook
    factor = 1.0
    if loss == "local-mean":
        # The hooks average over the n workers: n·b_i/B of each mean is the mean over all samples.
        factor = share.world_size * share.local_batch / share.global_batch
    if compression is None and (loss == "weighted" or share.is_even):
        return None

    def exchange(group: Any, bucket: Any) -> Any:
        if factor != 1.0:
            bucket.buffer().mul_(factor)
        return sent(group, bucket)

    # Torch refuses a hook whose annotations, if any, are not its own classes.
    exchange.__annotations__.clear()
    return exchange


def _require_weighted_losses(model: Module, share: Share) -> None:
    """Has the first backward pass fail if its loss did not come from this package."""
    parameter: Any = next(p for p in model.parameters() if p.requires_grad)

    def check(_: Any) -> None:
        handle.remove()
        if session().losses == 0:
            raise InputError(
                "this loss was not made by srifty.training, so with unequal shares "
                f"({_described(share)}) its samples would count unequally; use mean_loss, "
                'sum_loss or item_loss, or distribute(..., loss="local-mean")'
            )

    handle = parameter.register_post_accumulate_grad_hook(check)


def _described(share: Share) -> str:
    """Returns a few of the shares, for messages."""
    shown = [
        str(batch) if passes == 1 else f"{batch}/{passes}"
        for batch, passes in zip(share.local_batches[:8], share.accumulations[:8], strict=True)
    ]
    return ", ".join(shown) + (", ..." if share.world_size > 8 else "")
