"""Which gradients DistributedDataParallel sends together, and in which order.

Gradients are put into the open bucket of their element type one after the other. A bucket closes
when it *reaches* its cap, so it may exceed it by its last tensor; each element type has a first
bucket of its own, and a sparse gradient a bucket to itself. The rules are those of PyTorch's
`_compute_bucket_assignment_by_size` and its reducer, for parameters on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from srifty.core.profile import Gradient

Bucket = tuple[Gradient, ...]


def buckets_as_ready(arriving: Sequence[Gradient], caps_bytes: Sequence[int]) -> list[Bucket]:
    """Returns the buckets that are cut after the first iteration, in the order they are sent.

    Args:
        arriving: in order of readiness; those whose gradient stays away stand last.
        caps_bytes: caps of the first buckets; the last one holds for all that follow.
    """
    closed, open_ones = _cut(arriving, caps_bytes)
    # PyTorch walks through a hash table here, which in libstdc++ hands out the newest key first.
    return closed + open_ones[::-1]


def buckets_as_registered(
    registered: Sequence[Gradient], caps_bytes: Sequence[int]
) -> list[Bucket]:
    """Returns the buckets as the parameters stand in the model, in the order they are sent.

    They are cut from the first parameter on and sent in reverse, so that the smaller first bucket
    leaves last. So they are before the first iteration has ended, and with
    `find_unused_parameters` for good.

    Args:
        registered: in order of registration.
        caps_bytes: caps of the first buckets; the last one holds for all that follow.
    """
    closed, open_ones = _cut(registered, caps_bytes)
    place = {id(parameter): at for at, parameter in enumerate(registered)}
    return sorted(closed + open_ones, key=lambda bucket: place[id(bucket[0])], reverse=True)


def ready_in_turn(
    buckets: Sequence[Sequence[Gradient]], ready: Callable[[Gradient], float | None]
) -> list[float]:
    """Returns when each bucket can be sent, as a fraction of the backward pass.

    Its latest gradient is in by then, and the buckets before it have left. What stays away delays
    nothing, but nothing leaves before the first gradient is there.

    Args:
        buckets: in the order in which they are sent.
        ready: the time of one gradient; None for those that stay away.
    """
    times = [[ready(gradient) for gradient in bucket] for bucket in buckets]
    at = min((time for each in times for time in each if time is not None), default=0.0)
    found: list[float] = []
    for each in times:
        at = max([at, *(time for time in each if time is not None)])
        found.append(at)
    return found


def _cut(
    parameters: Sequence[Gradient], caps_bytes: Sequence[int]
) -> tuple[list[Bucket], list[Bucket]]:
    """Returns the buckets that reached their caps as they did, and those that are left open.

    The latter stand in the order in which their element types came up.
    """
    closed: list[Bucket] = []
    filling: dict[str | None, list[Gradient]] = {}
    bucket_bytes: dict[str | None, int] = {}
    full: dict[str | None, int] = {}
    for parameter in parameters:
        if parameter.sparse:
            closed.append((parameter,))
            continue
        kind = parameter.dtype
        filling.setdefault(kind, []).append(parameter)
        bucket_bytes[kind] = bucket_bytes.get(kind, 0) + parameter.bytes
        if bucket_bytes[kind] >= caps_bytes[min(full.get(kind, 0), len(caps_bytes) - 1)]:
            closed.append(tuple(filling[kind]))
            filling[kind] = []
            bucket_bytes[kind] = 0
            full[kind] = full.get(kind, 0) + 1
    return closed, [tuple(bucket) for bucket in filling.values() if bucket]
