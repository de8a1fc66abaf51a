"""A training's state, copied to the CPU and put back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

from srifty._torch import Tensor, torch
from srifty.errors import InputError


class Snapshot:
    """Copies states into memory that is kept from one time to the next."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Tensor] = {}

    def take(self, state: Any) -> Any:
        """Returns a copy on the CPU; the one before is overwritten.

        Args:
            state: tensors and plain values in mappings, lists and tuples.
        """
        copied = self._copied(state, ())
        if any(tensor.is_pinned() for tensor in self._kept.values()):
            torch.cuda.current_stream().synchronize()
        return copied

    def _copied(self, value: Any, at: tuple[Any, ...]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value.detach(), at)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            return {key: self._copied(one, (*at, key)) for key, one in items}
        if isinstance(value, (list, tuple)):
            held = cast("list[Any]", value)
            copies = [self._copied(one, (*at, place)) for place, one in enumerate(held)]
            return copies if isinstance(value, list) else tuple(copies)
        return copy.deepcopy(value)

    def _tensor(self, tensor: Tensor, at: tuple[Any, ...]) -> Tensor:
        kept = self._kept.get(at)
        if kept is None or kept.shape != tensor.shape or kept.dtype != tensor.dtype:
            kept = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self._kept[at] = kept
        kept.copy_(tensor, non_blocking=tensor.is_cuda)
        return kept


def require_stateful(state: Mapping[str, Any]) -> None:
    """Refuses what cannot be saved.

    Raises:
        InputError: an object has no `state_dict` and `load_state_dict`.
    """
    for name, owner in state.items():
        if not (hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict")):
            raise InputError(
                f"{name} cannot be saved: a {type(owner).__name__} has no state_dict and "
                "load_state_dict; give models, optimizers, schedulers, scalers, or such an object"
            )


def state_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the state of each object; models as they were before `distribute`."""
    return {name: bare(owner).state_dict() for name, owner in state.items()}


def put_back(state: Mapping[str, Any], saved: Mapping[str, Any], source: str) -> None:
    """Loads saved states into their objects.

    Args:
        state: the objects by name.
        saved: their states by name.
        source: where the states are from, for messages.

    Raises:
        InputError: a state is missing, or is another object's.
    """
    for name, owner in state.items():
        if name not in saved:
            held = ", ".join(saved) or "nothing"
            raise InputError(f"{name} was not saved; the checkpoint holds {held}", source)
        try:
            bare(owner).load_state_dict(saved[name])
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"{name} does not fit the script's: {error}; resume with the script that saved it, "
                "or save into another folder",
                source,
            ) from error


def bare(owner: Any) -> Any:
    """Returns the model that `distribute` wrapped; anything else as it is."""
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    return owner.module if isinstance(owner, parallel) else owner
