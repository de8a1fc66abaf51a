"""The state of a workload: taken before it is profiled, put back and checked afterwards (torch)."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from srifty._torch import Tensor, torch
from srifty.errors import ProfileFailed
from srifty.profiling.workload import Workload

_MODULE_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
)
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


@dataclass(frozen=True)
class Snapshot:
    """All that training changes, copied; it can be put back any number of times.

    Attributes:
        workload: whose state it is.
        prints: fingerprint of each part of the state.
    """

    workload: Workload
    prints: Mapping[str, str]
    _tensors: Mapping[str, Tensor]
    _gradients: Mapping[str, Tensor | None]
    _optimizer: dict[str, Any]
    _random: tuple[Any, Any, Any, dict[str, Any]]
    _modes: Mapping[str, bool]

    def restore(self) -> None:
        """Puts everything back but hooks, which their owners remove."""
        model, optimizer = self.workload.model, cast("Any", self.workload.optimizer)
        with torch.no_grad():
            for name, tensor in _named_tensors(self.workload):
                if name in self._tensors:
                    tensor.copy_(self._tensors[name])
        for name, parameter in model.named_parameters():
            kept = self._gradients.get(name)
            parameter.grad = None if kept is None else kept.to(parameter.device, copy=True)
        optimizer.state.clear()
        optimizer.load_state_dict(copy.deepcopy(self._optimizer))
        for name, module in model.named_modules():
            module.training = self._modes[name]
        _set_random(self._random)

    def verify(self) -> None:
        """Checks that the state is as it was.

        Raises:
            ProfileFailed: something differs; all of it is named.
        """
        now = _prints(self.workload)
        changed = sorted(
            name for name in {*now, *self.prints} if now.get(name) != self.prints.get(name)
        )
        if changed:
            shown = ", ".join(changed[:5]) + (", ..." if len(changed) > 5 else "")
            raise ProfileFailed(
                f"{self.workload.name} is not as it was before it was profiled; changed: {shown}. "
                "Use a freshly made model for training."
            )


def snapshot(workload: Workload) -> Snapshot:
    """Returns a copy of the workload's state, kept in the host's memory."""
    model, optimizer = workload.model, cast("Any", workload.optimizer)
    return Snapshot(
        workload=workload,
        prints=_prints(workload),
        _tensors={name: _copied(tensor) for name, tensor in _named_tensors(workload)},
        _gradients={
            name: None if parameter.grad is None else _copied(parameter.grad)
            for name, parameter in model.named_parameters()
        },
        _optimizer=_copied_deeply(optimizer.state_dict()),
        _random=_get_random(),
        _modes={name: module.training for name, module in model.named_modules()},
    )


def fingerprint(workload: Workload) -> str:
    """Returns one hash over the whole state, generators of random numbers included."""
    digest = hashlib.sha256()
    for name, part in sorted(_prints(workload).items()):
        digest.update(f"{name}={part};".encode())
    return digest.hexdigest()


def _named_tensors(workload: Workload) -> Iterator[tuple[str, Tensor]]:
    yield from workload.model.named_parameters()
    yield from workload.model.named_buffers()  # those that are not saved included


def _prints(workload: Workload) -> dict[str, str]:
    model, optimizer = workload.model, cast("Any", workload.optimizer)
    found = {name: _hash(tensor) for name, tensor in _named_tensors(workload)}
    for name, parameter in model.named_parameters():
        found[f"{name} (gradient)"] = _hash(parameter.grad)
        found[f"{name} (trainable)"] = str(parameter.requires_grad)
        found[f"{name} (hooks)"] = _count_hooks(parameter, _TENSOR_HOOKS)
    for name, module in model.named_modules():
        where = name or "the model"
        found[f"{where} (train mode)"] = str(module.training)
        found[f"{where} (module hooks)"] = _count_hooks(module, _MODULE_HOOKS)
    found["optimizer"] = _hash(optimizer.state_dict())
    python, numpy_state, host, devices = _get_random()
    found["random numbers of Python"] = _hash(repr(python))
    found["random numbers of NumPy"] = _hash(repr(numpy_state))
    found["random numbers of torch"] = _hash(host)
    for kind, state in devices.items():
        found[f"random numbers of {kind}"] = _hash(state)
    return found


def _count_hooks(owner: Any, names: tuple[str, ...]) -> str:
    return ",".join(str(len(getattr(owner, name, None) or ())) for name in names)


def _hash(value: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        # Through bytes: NumPy knows no bfloat16.
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, Mapping):
        for key, part in cast("Mapping[Any, Any]", value).items():
            digest.update(f"{key!r}:".encode())
            _feed(digest, part)
    elif isinstance(value, (list, tuple)):
        for part in cast("list[Any]", value):
            _feed(digest, part)
            digest.update(b",")
    else:
        digest.update(repr(value).encode())


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _copied_deeply(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _copied(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: _copied_deeply(part) for key, part in items}
    if isinstance(value, (list, tuple)):
        parts = [_copied_deeply(part) for part in cast("list[Any]", value)]
        return parts if isinstance(value, list) else tuple(parts)
    return copy.deepcopy(value)


def _get_random() -> tuple[Any, Any, Any, dict[str, Any]]:
    devices: dict[str, Any] = {}
    if torch.cuda.is_available():
        devices["cuda"] = torch.cuda.get_rng_state_all()
    state = np.random.get_state()  # noqa: NPY002 - the one that users' code draws from
    return random.getstate(), state, torch.get_rng_state(), devices


def _set_random(states: tuple[Any, Any, Any, dict[str, Any]]) -> None:
    python, numpy_state, host, devices = states
    random.setstate(python)
    np.random.set_state(numpy_state)  # noqa: NPY002 - the same
    torch.set_rng_state(host)
    if "cuda" in devices:
        torch.cuda.set_rng_state_all(devices["cuda"])
