"""Batch normalisation over the global batch, or per worker with statistics combined by weight."""

from __future__ import annotations

from typing import Any, cast

from srifty._torch import Module, Tensor, torch
from srifty.errors import InputError
from srifty.training._session import session

_PLAIN = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalisation with the statistics of all workers' samples together, on any device.

    Unequal shares give what one process gives on the whole batch. There is one exchange of two
    values per channel in the forward pass and one in the backward pass. Outside of training, and in
    one process, it is plain batch normalisation.

    Attributes:
        process_group: whose workers take part; None for all.
        alone: whether the other workers' samples are left out.
    """

    process_group: Any = None
    alone: bool = False

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's name for it
        if input.dim() < 2:
            raise InputError(f"SyncBatchNorm needs (samples, channels, ...), not {input.dim()}D")

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name for it
        """Returns the normalised samples."""
        layer = cast("Any", self)
        if not (layer.training and self._has_company()):
            return cast("Tensor", super().forward(input))
        self._check_input_dim(input)
        normalised, mean, squares, count = _Normalise.apply(
            input, layer.weight, layer.bias, layer.eps, self.process_group
        )
        if layer.track_running_stats:
            self._follow(mean, squares / (count - 1).clamp(min=1))
        return normalised

    def _has_company(self) -> bool:
        distributed = torch.distributed
        return (
            not self.alone
            and distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_world_size(self.process_group) > 1
        )

    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        layer = cast("Any", self)
        layer.num_batches_tracked.add_(1)
        momentum = layer.momentum
        if momentum is None:
            momentum = 1.0 / float(layer.num_batches_tracked)
        layer.running_mean.lerp_(mean.to(layer.running_mean), momentum)
        layer.running_var.lerp_(variance.to(layer.running_var), momentum)


class _Normalise(torch.autograd.Function):
    """Normalised samples; with mean, squared deviations and elements per channel of all workers.

    Of the input only itself is kept for the backward pass, as torch's own layer does. With N
    elements in all, x' the normalised input, g the gradient in the output and w the weight, the
    gradient in the input is w/σ·(g − Σg/N − x'·Σ(g·x')/N), the sums over all workers (Ioffe 2015).
    """

    @staticmethod
    def forward(
        ctx: Any, samples: Tensor, weight: Tensor, bias: Tensor, eps: float, group: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, squares, count = _pooled(samples, group)
        inverse = (squares / count + eps).rsqrt()
        normalised = (samples - _wide(mean, samples)) * _wide(inverse, samples)
        if weight is not None:
            normalised = normalised * _wide(weight, samples) + _wide(bias, samples)
        ctx.save_for_backward(samples, weight, mean, inverse, count)
        ctx.group = group
        ctx.mark_non_differentiable(mean, squares, count)
        return normalised.to(samples.dtype), mean, squares, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        samples, weight, mean, inverse, count = ctx.saved_tensors
        gradient = gradient.to(mean.dtype)
        normalised = (samples - _wide(mean, samples)) * _wide(inverse, samples)
        dims = _all_but_channels(samples)
        own = torch.stack([gradient.sum(dims), (gradient * normalised).sum(dims)])
        everyones = own.clone()
        torch.distributed.all_reduce(everyones, group=ctx.group)
        by_mean, by_scale = everyones / count
        found = gradient - _wide(by_mean, samples) - normalised * _wide(by_scale, samples)
        scale = inverse if weight is None else inverse * weight
        found = (found * _wide(scale, samples)).to(samples.dtype)
        if weight is None:
            return found, None, None, None, None
        return found, own[1].to(weight.dtype), own[0].to(weight.dtype), None, None


def _pooled(samples: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Returns mean, sum of squared deviations and number of elements per channel, of all workers.

    Each worker's enter by its number of elements (Chan 1979): no difference of large sums is taken,
    and a worker without samples counts for nothing.
    """
    dims = _all_but_channels(samples)
    wide = samples.to(torch.promote_types(samples.dtype, torch.float32))
    count = samples.numel() // samples.shape[1]
    mean = wide.sum(dims) / max(count, 1)
    squares = (wide - _wide(mean, samples)).square().sum(dims)
    own = torch.cat([mean, squares, mean.new_tensor([count])])
    found = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(found, own, group=group)
    means, deviations, counts = torch.stack(found).split([len(mean), len(mean), 1], dim=1)
    total = counts.sum().clamp(min=1)
    pooled = (means * counts).sum(0) / total
    spread = deviations.sum(0) + (counts * (means - pooled).square()).sum(0)
    return pooled, spread, total


def _all_but_channels(samples: Tensor) -> list[int]:
    return [dim for dim in range(samples.dim()) if dim != 1]


def _wide(per_channel: Tensor, samples: Tensor) -> Tensor:
    """Returns one value per channel in a shape that goes with the samples."""
    return per_channel.view(1, -1, *(1,) * (samples.dim() - 2))


def sync_batch_norm(model: Module, *, process_group: Any = None) -> Module:
    """Returns the model with each batch normalisation, torch's SyncBatchNorm included, made ours.

    Parameters and statistics stay the same tensors. Call it before the optimizer is made and
    before `distribute`.

    Args:
        model: its layers are replaced in place; a lone layer is returned as a new one.
        process_group: whose workers take part; None for all.
    """
    if isinstance(model, (*_PLAIN, torch.nn.SyncBatchNorm)):
        return _converted(model, process_group)
    for name, child in list(model.named_children()):
        new = sync_batch_norm(child, process_group=process_group)
        if new is not child:
            setattr(model, name, new)
    return model


def combine_statistics(model: Module) -> None:
    """Gives all workers the running statistics of all, each worker's by its share of the samples.

    Mean: Σ w_i·m_i; variance: Σ w_i·(v_i + (m_i − m)²), with w_i = b_i/B. Before a model with plain
    batch normalisation is saved or evaluated, all workers call it together. Statistics that are
    already equal stay as they are.

    Args:
        model: what `distribute` returned, or what it was given.
    """
    open_ = session()
    if open_.share.world_size == 1:
        return
    weight = open_.share.local_batch / open_.share.global_batch
    for layer in _tracking(model):
        mean, variance = layer.running_mean, layer.running_var
        wide = torch.stack([mean, variance]).to(torch.promote_types(mean.dtype, torch.float32))
        pooled = _weighted_sum(wide[0], weight, open_.group)
        around = wide[1] + (wide[0] - pooled).square()
        mean.copy_(pooled)
        variance.copy_(_weighted_sum(around, weight, open_.group))


def has_plain_batch_norm(model: Module) -> bool:
    """Returns whether some layer normalises over this worker's samples alone."""
    return any(isinstance(module, _PLAIN) for module in model.modules())


def has_running_statistics(model: Module) -> bool:
    """Returns whether some batch normalisation keeps running statistics."""
    return bool(_tracking(model))


def has_sync_batch_norm(model: Module) -> bool:
    """Returns whether some layer exchanges statistics in its forward pass."""
    kinds = (SyncBatchNorm, torch.nn.SyncBatchNorm)
    return any(isinstance(module, kinds) for module in model.modules())


def _converted(layer: Module, process_group: Any) -> SyncBatchNorm:
    new: Any = SyncBatchNorm(
        layer.num_features,
        layer.eps,
        layer.momentum,
        layer.affine,
        layer.track_running_stats,
    )
    new.weight, new.bias = layer.weight, layer.bias
    for name, buffer in layer.named_buffers(recurse=False):
        new.register_buffer(name, buffer)
    new.training = layer.training
    new.process_group = process_group
    return new


def _tracking(model: Module) -> list[Any]:
    kind = torch.nn.modules.batchnorm._BatchNorm
    found = [module for module in model.modules() if isinstance(module, kind)]
    return [module for module in found if module.running_mean is not None]


def _weighted_sum(values: Tensor, weight: float, group: Any) -> Tensor:
    summed = values * weight
    torch.distributed.all_reduce(summed, group=group)
    return summed
