"""The buckets that the installed DistributedDataParallel makes of a model's gradients (torch).

Which tensors share a bucket is said by `srifty.core.buckets`, for plans as well; the rules around
it (which order, which caps, when the buckets are built again) are DistributedDataParallel's and its
reducer's. All are checked against torch's own function, and against the buckets that real processes
hand to a communication hook:

* At first the parameters stand in order of registration. Without `find_unused_parameters`, or with
  `static_graph`, nothing is cut: one bucket per element type and device. With it, buckets are cut
  at the caps and then sent in reverse, so that the small one leaves last.
* After the first iteration (the second with `static_graph`) they are cut anew in the order in which
  the gradients became ready, the small bucket first and parameters without a gradient last. Never
  with `find_unused_parameters`, unless the graph is static.
* The first bucket is smaller (1 MiB) only where `bucket_cap_mb` was left out. Each element type has
  a first bucket of its own, and a sparse gradient a bucket for itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srifty.core.buckets import buckets_as_ready, buckets_as_registered, ready_in_turn
from srifty.core.profile import Gradient, GradientSchedule
from srifty.errors import InputError
from srifty.profiling._torch import Module, torch
from srifty.units import MIB

_DEFAULT_CAP_MIB = 25
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class DdpOptions:
    """How DistributedDataParallel is called; the names and defaults are its own.

    Attributes:
        bucket_cap_mb: cap of every bucket, MiB; None: 25, and less for the first bucket.
        bucket_cap_mb_list: caps of the first buckets, MiB; the last one holds for all that follow.
        find_unused_parameters: whether parameters may stay without a gradient.
        static_graph: whether every iteration uses the same parameters in the same way.
    """

    bucket_cap_mb: float | None = None
    bucket_cap_mb_list: tuple[float, ...] = ()
    find_unused_parameters: bool = False
    static_graph: bool = False

    @property
    def rebuilds(self) -> bool:
        """Whether the buckets are built again in the order of readiness."""
        return self.static_graph or not self.find_unused_parameters


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are sent together.

    Attributes:
        names: the parameters, in the order in which they lie in the bucket.
        bytes: size of the bucket, with zeros in the place of gradients that stay away; of a sparse
            gradient what the schedule says, or as if it were dense where it stays away.
        ready: when it can be sent, as a fraction of the backward pass: its latest gradient is in,
            and all buckets before it have been sent off.
    """

    names: tuple[str, ...]
    bytes: int
    ready: float


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """The buckets of one model, in the order in which they are sent.

    Attributes:
        first: those of the first iterations.
        later: those of all others.
        first_iterations: how many iterations use `first`; 0 where they are never built again, and
            `first` and `later` are the same.
    """

    first: tuple[Bucket, ...]
    later: tuple[Bucket, ...]
    first_iterations: int


def bucket_plan(model: Module, schedule: GradientSchedule, options: DdpOptions) -> BucketPlan:
    """Returns the buckets that DistributedDataParallel will make of a model's gradients.

    Args:
        model: as it would be wrapped; only its parameters are looked at.
        schedule: its gradients in order of readiness, by their first names in the model.
        options: how DistributedDataParallel will be called.

    Raises:
        InputError: the schedule is of another model, trainable parameters without a gradient would
            keep DistributedDataParallel waiting for ever, or torch was built without it.
    """
    if not torch.distributed.is_available():
        raise InputError("this build of PyTorch lacks torch.distributed; install another")
    members = list(_members(model, {gradient.name: gradient for gradient in schedule.gradients}))
    ready = {gradient.name: gradient.ready for gradient in schedule.gradients}
    strangers = ready.keys() - {member.name for member in members}
    if strangers:
        raise InputError(f"the model has no trainable parameter {_listed(sorted(strangers))}")
    silent = [member for member in members if member.name not in ready]
    if silent and not (options.find_unused_parameters or options.static_graph):
        raise InputError(
            f"DistributedDataParallel would wait for ever for {len(silent)} gradients "
            f"({_listed(member.name for member in silent)}); pass find_unused_parameters=True, or "
            "freeze these parameters"
        )
    first_limits, later_limits = _limits(options)
    first = _timed(buckets_as_registered(members, first_limits), ready)
    if not options.rebuilds:
        return BucketPlan(first, first, 0)
    by_name = {member.name: member for member in members}
    arriving = [by_name[gradient.name] for gradient in schedule.gradients] + silent
    later = _timed(buckets_as_ready(arriving, later_limits), ready)
    return BucketPlan(first, later, 2 if options.static_graph else 1)


def _members(model: Module, known: Mapping[str, Gradient]) -> Iterator[Gradient]:
    """Yields the trainable parameters in order of registration, each once."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        embeds = isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
        for name, tensor in module.named_parameters(recurse=False):
            if not tensor.requires_grad or id(tensor) in seen or not tensor.numel():
                continue
            seen.add(id(tensor))
            full = f"{prefix}.{name}" if prefix else name
            sparse = embeds and bool(module.sparse)
            size = int(tensor.numel() * tensor.element_size())
            if sparse and full in known:
                size = known[full].bytes
            yield Gradient(full, size, 0.0, dtype=str(tensor.dtype), sparse=sparse)


def _limits(options: DdpOptions) -> tuple[list[int], list[int]]:
    """Returns the caps in bytes at first and later; the last of each repeats."""
    if options.bucket_cap_mb_list:
        caps = [int(cap * MIB) for cap in options.bucket_cap_mb_list]
        return caps, caps
    if options.bucket_cap_mb is None:
        caps = [int(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES), _DEFAULT_CAP_MIB * MIB]
    else:
        caps = [int(options.bucket_cap_mb * MIB)]
    return ([sys.maxsize] if options.rebuilds else caps), caps


def _timed(buckets: Sequence[Sequence[Gradient]], ready: Mapping[str, float]) -> tuple[Bucket, ...]:
    times = ready_in_turn(buckets, lambda member: ready.get(member.name))
    return tuple(
        Bucket(tuple(m.name for m in members), sum(m.bytes for m in members), at)
        for members, at in zip(buckets, times, strict=True)
    )


def _listed(names: Iterable[Any]) -> str:
    """Returns the first few names, and how many more there are."""
    names = list(names)
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
