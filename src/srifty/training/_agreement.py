"""Whether all workers have the same."""

from __future__ import annotations

import hashlib
from typing import Any

from srifty._torch import torch


def all_agree(data: bytes, group: Any, device: Any) -> bool:
    """Returns on every worker whether all passed the same bytes.

    Args:
        data: what should be the same; only a hash of it is sent.
        group: whose workers compare; None for all.
        device: of the message, one that the group's library can send from.
    """
    digest = int.from_bytes(hashlib.sha256(data).digest()[:7], "big")
    # Both at once: the largest and, negated, the smallest.
    ends = torch.tensor([digest, -digest], dtype=torch.int64, device=device)
    torch.distributed.all_reduce(ends, torch.distributed.ReduceOp.MAX, group=group)
    return int(ends[0]) == -int(ends[1])
