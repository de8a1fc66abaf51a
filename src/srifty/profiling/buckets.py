"""The buckets that the installed DistributedDataParallel makes of a model's gradients (torch).

Which tensors share a bucket is asked of torch's own function; the rules around it (which order,
which caps, when the buckets are built again) are DistributedDataParallel's and its reducer's, and
are checked against the buckets that real processes hand to a communication hook:

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from srifty._torch import Module, Tensor, torch
from srifty.core.profile import GradientSchedule
from srifty.errors import InputError
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
        bytes: size of the bucket, with zeros in the place of gradients that stay away; a sparse
            gradient counts as if it were dense.
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
    members = list(_members(model))
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
    first = [
        [members[index] for index in indices]
        for indices in reversed(_cut(members, first_limits, ordered=False))
    ]
    if not options.rebuilds:
        plan = _timed(first, ready)
        return BucketPlan(plan, plan, 0)
    by_name = {member.name: member for member in members}
    arriving = [by_name[gradient.name] for gradient in schedule.gradients] + silent
    later = [
        [arriving[index] for index in indices]
        for indices in _cut(arriving, later_limits, ordered=True)
    ]
    return BucketPlan(_timed(first, ready), _timed(later, ready), 2 if options.static_graph else 1)


@dataclass(frozen=True, slots=True)
class _Member:
    """A trainable parameter: its first name, and whether its gradient will be sparse."""

    name: str
    tensor: Tensor
    sparse: bool

    @property
    def bytes(self) -> int:
        return int(self.tensor.numel() * self.tensor.element_size())


def _members(model: Module) -> Iterator[_Member]:
    """Yields the trainable parameters in order of registration, each once."""
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        embeds = isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
        for name, tensor in module.named_parameters(recurse=False):
            if tensor.requires_grad and id(tensor) not in seen:
                seen.add(id(tensor))
                full = f"{prefix}.{name}" if prefix else name
                yield _Member(full, tensor, sparse=embeds and bool(module.sparse))


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


def _cut(members: Sequence[_Member], limits: list[int], *, ordered: bool) -> list[list[int]]:
    """Returns the positions of each bucket's members.

    Args:
        members: in the order in which they are put into buckets.
        limits: the caps in bytes; the last one repeats.
        ordered: whether buckets stand as they close; otherwise by their first member.
    """
    indices = list(range(len(members))) if ordered else []
    buckets, _ = torch.distributed._compute_bucket_assignment_by_size(
        [member.tensor for member in members],
        limits,
        [member.sparse for member in members],
        indices,
    )
    return buckets


def _timed(buckets: Iterable[Sequence[_Member]], ready: dict[str, float]) -> tuple[Bucket, ...]:
    """Returns the buckets with their times; one waits for those before it."""
    timed: list[Bucket] = []
    at = min(ready.values(), default=0.0)
    for members in buckets:
        at = max([at, *(ready.get(member.name, 0.0) for member in members)])
        names = tuple(member.name for member in members)
        timed.append(Bucket(names, sum(member.bytes for member in members), at))
    return tuple(timed)


def _listed(names: Iterable[Any]) -> str:
    """Returns the first few names, and how many more there are."""
    names = list(names)
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
