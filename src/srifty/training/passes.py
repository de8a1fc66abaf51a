"""The forward/backward passes of one global step, of which only the last exchanges gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TypeVar

from srifty._torch import Module
from srifty.errors import InputError
from srifty.training._session import session

Batch = TypeVar("Batch")


def passes(model: Module, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches of one global step; gradients are exchanged in the last pass only.

    Workers may make different numbers of passes: losses of this package are parts of the whole
    step's, and add up. Forward and backward pass of a batch both belong into the loop's body.

    Args:
        model: what `distribute` returned.
        batches: one for each pass of this worker, at least one.

    Raises:
        InputError: there is no batch; the other workers would wait for this one's gradients.
    """
    waiting = iter(batches)
    try:
        batch = next(waiting)
    except StopIteration:
        raise InputError(
            "a step needs at least one pass of every worker, as the others wait for its "
            "gradients; pass a batch without samples"
        ) from None
    open_ = session()
    silent = getattr(model, "no_sync", nullcontext)
    try:
        for following in waiting:
            open_.passes_open = True
            with silent():
                yield batch
            batch = following
        yield batch
    finally:
        open_.passes_open = False
