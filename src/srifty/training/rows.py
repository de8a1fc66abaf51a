"""Some rows of all tensors of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from srifty._torch import torch


def rows(batch: Any, where: slice) -> Any:
    """Returns the same structure with only these rows of its tensors.

    Args:
        batch: tensors, which may lie in tuples, lists and mappings; anything else stays as it is.
        where: which rows.
    """
    if isinstance(batch, torch.Tensor):
        return batch[where]
    if isinstance(batch, Mapping):
        held = cast("Mapping[Any, Any]", batch)
        return {key: rows(one, where) for key, one in held.items()}
    if isinstance(batch, (tuple, list)):
        cut = [rows(one, where) for one in cast("list[Any]", batch)]
        kind: Any = type(cast("object", batch))
        return kind(*cut) if hasattr(kind, "_fields") else kind(cut)  # the first: named tuples
    return batch
