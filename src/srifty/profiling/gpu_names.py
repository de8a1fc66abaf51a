"""torch's names of GPUs → the names that plans use. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What drivers keep for themselves; more difference is another GPU.
_MEMORY_TOLERANCE = 0.12


def gpu_model_of(
    device_name: str, memory_bytes: int | None, known: Mapping[str, int]
) -> str | None:
    """Returns the known GPU model that a device is; None where it is none of them.

    Args:
        device_name: such as `NVIDIA A100-SXM4-40GB` or `Tesla T4`.
        memory_bytes: the device's; tells models of one name apart.
        known: memory in bytes by model, such as `A100-40GB`, `T4`, `RTX-2080Ti`.
    """
    words = [word.lower() for word in re.split(r"[\s_-]+", device_name) if word]
    joined = {
        "".join(words[start:stop])
        for start in range(len(words))
        for stop in range(start + 1, min(start + 3, len(words)) + 1)
    }
    matches = [name for name in known if _plain(name) in joined]
    if memory_bytes is None:
        return matches[0] if len(matches) == 1 else None
    near = [name for name in matches if abs(memory_bytes / known[name] - 1) <= _MEMORY_TOLERANCE]
    # Of `V100` (16 GB) and `V100-32GB`, the nearest in memory.
    return min(near, key=lambda name: abs(memory_bytes - known[name]), default=None)


def _plain(name: str) -> str:
    """Returns a model's name without its memory, hyphens and capitals."""
    return re.sub(r"-\d+gb$", "", name.lower()).replace("-", "")
