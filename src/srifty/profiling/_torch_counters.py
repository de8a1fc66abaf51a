"""Torch's own counters: `Any` to the type checker, which runs without torch."""

from __future__ import annotations

import importlib
from typing import Any

from srifty._torch import torch

FakeTensorMode: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode
ModuleTracker: Any = importlib.import_module("torch.utils.module_tracker").ModuleTracker
TorchDispatchMode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

_pytree: Any = importlib.import_module("torch.utils._pytree")
tree_leaves: Any = _pytree.tree_leaves
tree_map_only: Any = _pytree.tree_map_only

_flop_counter: Any = importlib.import_module("torch.utils.flop_counter")


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return _flop_counter.sdpa_flop_count(query.shape, key.shape, value.shape)


def _attention_backward_flops(
    gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return _flop_counter.sdpa_backward_flop_count(
        gradient.shape, query.shape, key.shape, value.shape
    )


# Torch's registry lacks the attention kernels of the CPU, where fake tensors live.
FLOPS: dict[Any, Any] = {
    **_flop_counter.flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
"""Operations of a kernel by its overload packet: called with its arguments and `out_val`."""
