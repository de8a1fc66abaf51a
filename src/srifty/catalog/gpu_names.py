"""What clouds call a GPU, and what we call it."""

from __future__ import annotations

from srifty.units import GIB, MIB

# Name at a cloud, in capitals → (our name, nominal memory in GiB); memory tells two apart.
_KNOWN: dict[str, tuple[tuple[str, int], ...]] = {
    "K80": (("K80", 12),),
    "M60": (("M60", 8),),
    "P100": (("P100", 16),),
    "T4": (("T4", 16),),
    "V100": (("V100", 16), ("V100-32GB", 32)),
    "V100-32GB": (("V100-32GB", 32),),
    "A10G": (("A10G", 24),),
    "L4": (("L4", 24),),
    "L40S": (("L40S", 48),),
    "A100": (("A100-40GB", 40), ("A100-80GB", 80)),
    "A100-40GB": (("A100-40GB", 40),),
    "A100-80GB": (("A100-80GB", 80),),
    "H100": (("H100", 80),),
}
# Clouds report what is left after reserving (L40S: 44.7 of 48 GiB).
_TOLERANCE = 0.15


def is_known_gpu(name: str) -> bool:
    """Returns whether a cloud's name stands for a GPU that we have a name for."""
    return name.strip().upper() in _KNOWN


def our_gpu(name: str, memory_mib: int | None) -> tuple[str, int] | None:
    """Returns our name of a GPU and its memory in bytes; None where name and memory do not tell.

    Args:
        name: the cloud's name, such as `V100`.
        memory_mib: memory of one GPU as the cloud states it; None where it does not.
    """
    candidates = _KNOWN.get(name.strip().upper(), ())
    if memory_mib is None:
        if len(candidates) != 1:
            return None
        return candidates[0][0], candidates[0][1] * GIB
    for ours, nominal_gib in candidates:
        nominal_mib = nominal_gib * GIB // MIB
        if abs(memory_mib - nominal_mib) <= _TOLERANCE * nominal_mib:
            return ours, memory_mib * MIB
    return None
