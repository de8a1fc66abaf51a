"""How many samples a GPU's memory holds: counted from layers, or carried over from another one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from srifty.core._checks import require, require_count, require_positive
from srifty.core.profile import Layer
from srifty.core.work import StepMemory
from srifty.units import GIB

BYTES_PER_PARAMETER = 16.0
"""Weight, gradient and two moments of Adam at 4 bytes each; SGD with momentum needs 12."""

CONTEXT_BYTES = round(0.8 * GIB)
"""Memory that the CUDA context and the libraries hold before the first tensor."""

ACTIVATION_FACTOR = 1.3
"""Memory per sample over the bytes that its layers write: temporaries, workspaces, fragments."""


FRAGMENTS_FACTOR = 1.1
"""Memory that the allocator holds over what the tensors need: rounding and fragments."""


def fitting_batch(memory: StepMemory, memory_bytes: float, *, largest: int = 65536) -> int:
    """Returns the largest power of two of samples that fits by a counted peak; 0 where none does.

    Args:
        memory: peak memory of a step.
        memory_bytes: memory of the GPU; `CONTEXT_BYTES` of it are never free.
        largest: where to stop for models with next to no activations.

    Raises:
        InputError: `memory_bytes` is not above zero.
    """
    require_positive("memory_bytes", memory_bytes)
    free_bytes = (memory_bytes - CONTEXT_BYTES) / FRAGMENTS_FACTOR
    if free_bytes < memory.least_bytes:
        return 0
    return _power_of_two_below((free_bytes - memory.fixed_bytes) / memory.sample_bytes, largest)


def estimate_max_batch(
    layers: Sequence[Layer],
    memory_bytes: float,
    *,
    bytes_per_parameter: float = BYTES_PER_PARAMETER,
    context_bytes: float = CONTEXT_BYTES,
    activation_factor: float = ACTIVATION_FACTOR,
    largest: int = 65536,
) -> int:
    """Returns the largest power of two of samples that a GPU's memory holds; 0 where none fits.

    Fixed part: parameters x `bytes_per_parameter` + the context. Each sample: the bytes that the
    layers write x `activation_factor`.

    Args:
        layers: work per sample of each layer.
        memory_bytes: memory of the GPU.
        bytes_per_parameter: weights, gradients and the optimizer's state.
        context_bytes: memory that is never free.
        activation_factor: memory per sample over bytes written.
        largest: where to stop for models with next to no activations.

    Raises:
        InputError: an argument is not above zero.
    """
    require_positive("memory_bytes", memory_bytes)
    require_positive("activation_factor", activation_factor)
    fixed_bytes = bytes_per_parameter * sum(layer.parameters for layer in layers) + context_bytes
    sample_bytes = activation_factor * sum(layer.bytes for layer in layers)
    return _power_of_two_below((memory_bytes - fixed_bytes) / sample_bytes, largest)


def scale_max_batch(
    max_batch: int,
    parameters: int,
    *,
    memory_bytes: float,
    target_memory_bytes: float,
    bytes_per_parameter: float = BYTES_PER_PARAMETER,
    context_bytes: float = CONTEXT_BYTES,
) -> int:
    """Returns how many samples another memory holds, given that `max_batch` filled `memory_bytes`.

    The memory per sample follows from the known maximum (`estimate_max_batch`'s fixed part taken
    off); the answer is a power of two, or 0 where not even one sample fits.

    Raises:
        InputError: an argument is out of range, or the fixed part already fills `memory_bytes`.
    """
    require_count("max_batch", max_batch)
    require_positive("target_memory_bytes", target_memory_bytes)
    fixed_bytes = bytes_per_parameter * parameters + context_bytes
    require(
        memory_bytes > fixed_bytes,
        f"{parameters} parameters alone fill {memory_bytes:.0f} bytes, yet max_batch is "
        f"{max_batch}; give a smaller bytes_per_parameter",
    )
    sample_bytes = (memory_bytes - fixed_bytes) / max_batch
    return _power_of_two_below((target_memory_bytes - fixed_bytes) / sample_bytes, max_batch)


def _power_of_two_below(samples: float, largest: int) -> int:
    if samples < 1:
        return 0
    return 2 ** math.floor(math.log2(min(samples, largest)))
