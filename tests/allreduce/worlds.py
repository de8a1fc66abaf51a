"""Made-up clusters whose allreduce times are known exactly."""

from __future__ import annotations

import numpy as np

from srifty.core.allreduce import AllreduceSample

SIZES = [4 * 4**power for power in range(14)]  # 4 B to 256 MiB


def ring_time_s(world_size, vms, size_bytes, *, alpha_s=40e-6, beta=2e9):
    """A latency that grows with the depth of a tree, and a bandwidth; seconds."""
    bus_bytes = 2 * size_bytes * (world_size - 1) / world_size
    return alpha_s * (1 + np.log2(world_size)) + bus_bytes / beta + 0 * vms


def sweep(
    kind="g4dn.12xlarge",
    worlds=((8, 2), (16, 4), (32, 8), (64, 16)),
    *,
    sizes=SIZES,
    law=ring_time_s,
    noise=0.0,
    repeats=1,
    seed=0,
    **facts,
):
    """Samples of several worlds of one curve, with log-normal noise."""
    rng = np.random.default_rng(seed)
    return [
        AllreduceSample(
            kind,
            vms,
            n,
            size,
            float(law(n, vms, size) * np.exp(rng.normal(0, noise))),
            **{"run": str(repeat), "source": "made up"} | facts,
        )
        for repeat in range(repeats)
        for n, vms in worlds
        for size in sizes
    ]
