"""The parameters of a model as the gradients that are exchanged for them (torch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from srifty.core.profile import Gradient
from srifty.profiling._torch import Module, Tensor

_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with all of its names, in order of registration."""

    tensor: Tensor
    names: tuple[str, ...]


def named_parameters(model: Module) -> list[Parameter]:
    """Returns the parameters in order of registration, each once."""
    names: dict[int, list[str]] = {}
    tensors: dict[int, Tensor] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
        tensors[id(tensor)] = tensor
    return [Parameter(tensors[key], tuple(own)) for key, own in names.items()]


def exchanged(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Returns the trainable ones; tensors without an element have nothing to exchange."""
    return [own for own in parameters if own.tensor.requires_grad and own.tensor.numel() > 0]


def gradient_of(own: Parameter, index: int, ready: float = 0.0) -> Gradient:
    """Returns what is exchanged for a parameter after a backward pass.

    Args:
        own: the parameter.
        index: its place among those that are exchanged.
        ready: when its gradient is ready, as a fraction of the backward pass.
    """
    return Gradient(
        own.names[0],
        _gradient_bytes(own.tensor),
        ready,
        dtype=str(own.tensor.dtype).removeprefix("torch."),
        index=index,
        sparse=is_sparse(own.tensor),
    )


def is_sparse(parameter: Tensor) -> bool:
    """Whether its gradient is sent as indices and values."""
    return parameter.grad is not None and bool(parameter.grad.is_sparse)


def silent_notes(unused: Sequence[str], sometimes: Sequence[str]) -> tuple[str, ...]:
    """Returns sentences about parameters whose gradient stays away, always or in some steps."""
    about = (
        (unused, "trainable, but without a gradient"),
        (sometimes, "without a gradient in some steps"),
    )
    found = tuple(f"{what}: {listed(names)}" for names, what in about if names)
    return ("find_unused_parameters needed", *found) if found else ()


def listed(names: Sequence[str]) -> str:
    """Returns the first few of many names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def _gradient_bytes(parameter: Tensor) -> int:
    if is_sparse(parameter):
        parts = (parameter.grad._indices(), parameter.grad._values())
        return sum(int(part.numel() * part.element_size()) for part in parts)
    # The gradient itself may be gone: some optimizers step, and free it, in the backward pass.
    return int(parameter.numel() * parameter.element_size())
