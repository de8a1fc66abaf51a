"""The gradients of a step that is only counted: which come, and roughly when (torch)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from srifty.core.profile import Gradient, GradientSchedule
from srifty.profiling._torch import Module, Tensor
from srifty.profiling.parameters import exchanged, gradient_of, named_parameters, silent_notes


@dataclass
class Arrivals:
    """What came in one backward pass.

    Attributes:
        parameters: all that are exchanged, in order of registration; their times are unknown.
        parts: in how many parts the gradient of each came, by its index.
    """

    parameters: tuple[Gradient, ...] = ()
    parts: Counter[int] = field(default_factory=Counter[int])

    @contextmanager
    def watched(self, model: Module) -> Generator[None]:
        """Notes what comes within; the hooks are gone afterwards, whatever happens."""
        parameters = exchanged(named_parameters(model))

        def hook(index: int) -> Callable[[Tensor], None]:
            return lambda _: self.parts.update((index,))

        handles: list[Any] = [
            own.tensor.register_post_accumulate_grad_hook(hook(index))
            for index, own in enumerate(parameters)
        ]
        try:
            yield
            self.parameters = tuple(gradient_of(own, at) for at, own in enumerate(parameters))
        finally:
            for handle in handles:
                handle.remove()


@dataclass(frozen=True)
class CountedGradients:
    """The gradients of a step that was counted.

    Attributes:
        schedule: them, marked as estimated.
        notes: what a user should know of those that stay away.
    """

    schedule: GradientSchedule
    notes: tuple[str, ...]


def estimate_gradients(
    owners: Sequence[tuple[float, Sequence[str]]], arrivals: Sequence[Arrivals]
) -> CountedGradients:
    """Returns the gradients in reverse order of registration.

    Each is ready when the work behind it is done. As in a measurement, a parameter is unused that
    got no gradient at any size, and parameters have to be found where one got none at some size,
    unless gradients come in parts.

    Args:
        owners: work and names of the trainable parameters of each module, in order of registration.
        arrivals: what came, once for each size.
    """
    whole = sum(work for work, _ in owners) or 1.0
    known = {gradient.name: gradient for gradient in arrivals[-1].parameters}
    came = Counter(index for each in arrivals for index in each.parts)
    unused = tuple(gradient for index, gradient in enumerate(known.values()) if not came[index])
    sometimes = tuple(
        gradient.name
        for index, gradient in enumerate(known.values())
        if 0 < came[index] < len(arrivals)
    )
    gradients: list[Gradient] = []
    done = 0.0
    for work, names in reversed(owners):
        done += work
        ready = min(1.0, done / whole)
        own = [known[name] for name in reversed(names) if name in known]
        gradients += [replace(each, ready=ready) for each in own if each not in unused]
    in_parts = any(times > 1 for each in arrivals for times in each.parts.values())
    return CountedGradients(
        GradientSchedule(
            tuple(gradients),
            estimated=True,
            unused=unused,
            find_unused_parameters=bool(unused or sometimes) and not in_parts,
        ),
        silent_notes([gradient.name for gradient in unused], sometimes),
    )
