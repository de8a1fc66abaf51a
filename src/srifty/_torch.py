"""The module torch, an optional extra: `Any` to the type checker, which runs without it."""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

from srifty.errors import InputError

Module: TypeAlias = Any
Optimizer: TypeAlias = Any
Tensor: TypeAlias = Any


def _import_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise InputError(f'this needs PyTorch ({error}): pip install "srifty[train]"') from None


torch: Any = _import_torch()
