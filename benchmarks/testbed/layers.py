"""Layer tables of the emulated models: sizes and shares of the work, scaled to the testbed. Pure.

The tables come from `tools.architectures`, which counts each layer's parameters and operations from
the published architecture. Everything that is sent is divided by `SCALE`; so are the links' rates
and the caps of the buckets, and so the ratios between computation and exchange stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from tools.architectures import (
    LayerSpec,
    alexnet,
    bert_base,
    dlrm_small,
    inception_v3,
    resnet18_cifar,
    resnet50,
    shufflenet_v2,
    vgg16_bn,
    xlm,
)

SCALE = 32
# Norms, biases and activations join the layer before them: what a framework fuses is one wait.
_LEAST_PARAMETERS = 8192
# An element that is written takes about as long as so many operations on the GPUs of the bed
# (T4: 8.1e12 operations and 80e9 elements of four bytes per second).
_OPERATIONS_PER_ELEMENT = 100.0

_TABLES: Mapping[str, Callable[[], list[LayerSpec]]] = {
    "resnet18": resnet18_cifar,
    "resnet50": resnet50,
    "vgg16": vgg16_bn,
    "alexnet": alexnet,
    "bert-base": bert_base,
    "dlrm": dlrm_small,
}
MODELS = tuple(_TABLES)
# Of the published cases alone; the sizes of the samples of the same names.
_CASE_TABLES: Mapping[str, Callable[[], list[LayerSpec]]] = {
    "inception-v3": inception_v3,
    "shufflenet-v2": shufflenet_v2,
    "xlm-1024": lambda: xlm(1024, 6, 8, 64_699, 256),
}
CASE_MODELS = tuple(_CASE_TABLES)


@dataclass(frozen=True, slots=True)
class EmulatedLayer:
    """One layer of an emulated model.

    Attributes:
        name: the layer's name.
        elements: elements of its one parameter tensor, after scaling; 1 or more.
        share: its part of the whole pass's time; the shares of a model add up to 1.
    """

    name: str
    elements: int
    share: float


@cache
def layers_of(model: str) -> tuple[EmulatedLayer, ...]:
    """Returns the layers of a model in forward order.

    Args:
        model: one of `MODELS` or `CASE_MODELS`.
    """
    merged: list[list[LayerSpec]] = []
    for spec in {**_TABLES, **_CASE_TABLES}[model]():
        if merged and spec.parameters < _LEAST_PARAMETERS:
            merged[-1].append(spec)
        else:
            merged.append([spec])
    work = [
        sum(spec.flops + _OPERATIONS_PER_ELEMENT * spec.elements for spec in group)
        for group in merged
    ]
    return tuple(
        EmulatedLayer(
            group[0].name,
            max(1, round(sum(spec.parameters for spec in group) / SCALE)),
            part / sum(work),
        )
        for group, part in zip(merged, work, strict=True)
    )
