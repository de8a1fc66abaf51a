"""What must not be mixed unseen: library versions and transports of one instance type.

The library is a part of the network: one VM type has shown 2.3 times the time of an allreduce after
an upgrade of NCCL alone (NVIDIA/nccl#1298).
"""

from __future__ import annotations

from collections.abc import Iterable

from srifty.allreduce.records import StoredCurve


def mixture_warnings(curves: Iterable[StoredCurve]) -> tuple[str, ...]:
    """Returns a sentence on the types that hold several versions, and one on transports.

    Worlds of one VM count for versions only: inside a VM the bytes go another way than between VMs.

    Args:
        curves: what the store holds.
    """
    versions: dict[str, set[str]] = {}
    transports: dict[str, set[str]] = {}
    for curve in curves:
        kind = curve.key.instance_type
        versions.setdefault(kind, set()).add(curve.key.library_version)
        if curve.most_vms > 1:
            transports.setdefault(kind, set()).add(curve.key.transport)
    sentences: list[str] = []
    for what, found in (("library versions", versions), ("transports", transports)):
        mixed = [
            f"{kind} ({', '.join(known)})"
            for kind, names in sorted(found.items())
            if len(known := sorted(names - {""})) > 1
        ]
        if mixed:
            sentences.append(
                f"Samples of several {what}: {'; '.join(mixed)}. Their times can differ by a "
                "factor of two; keep those that your run will use."
            )
    return tuple(sentences)
