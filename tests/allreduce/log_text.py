"""A small nccl-tests log, written with figures that agree with each other."""

from __future__ import annotations

_HALF = "     time   algbw   busbw #wrong"
_UNITS = "     (us)  (GB/s)  (GB/s)       "
SIZES = (1024, 65536, 1 << 20, 64 << 20)


def log_text(
    *,
    vms: int = 2,
    gpus: int = 8,
    gpu: str = "NVIDIA A100-SXM4-40GB",
    version: str = "2.18.5",
    collective: str = "all_reduce",
    slower: float = 1.0,
    wrong: int = 0,
    ranks: bool = True,
) -> str:
    """Returns a log of the layout of 2022 and later.

    Args:
        vms: hosts.
        gpus: ranks on each.
        gpu: name of the GPU.
        version: of NCCL.
        collective: whose program printed it.
        slower: factor on all times.
        wrong: failed verifications of the largest size.
        ranks: whether the lines of the ranks are there.
    """
    n = vms * gpus
    lines = ["# nThread 1 nGpus 1 minBytes 1024 maxBytes 67108864 step: 64(factor)", "#"]
    lines += ["# Using devices"]
    if ranks:
        lines += [
            f"#  Rank {rank:2d} Group  0 Pid {4000 + rank} on     node-{rank // gpus} device "
            f"{rank % gpus:2d} [0x{16 + rank % gpus:02x}] {gpu}"
            for rank in range(n)
        ]
        lines += [f"NCCL version {version}+cuda12.2"]
    factor = (2 if collective == "all_reduce" else 1) * (n - 1) / n
    redop = "sum" if collective == "all_reduce" else "none"
    lines += [
        "#",
        f"# Collective test starting: {collective}_perf",
        f"#{'out-of-place':>68}{'in-place':>34}",
        f"#{'size':>11}  {'count':>12}      type   redop    root{_HALF}{_HALF}",
        f"#{'(B)':>11}  {'(elements)':>12}{_UNITS:>44}{_UNITS}",
    ]
    averages: list[float] = []
    for size in SIZES:
        # An all-gather counts the elements of one rank.
        count = size // 4 if collective == "all_reduce" else size // 4 // n
        cells = f"{size:12d}  {count:12d}     float   {redop:>5}      -1"
        for place in (1.0, 1.01):
            time_us = round((60 + size / 40e3) * place * slower, 2)
            algbw = size / time_us / 1e3
            averages.append(algbw * factor)
            bad = wrong if size == SIZES[-1] else 0
            cells += f"   {time_us:.2f}  {algbw:.2f}  {algbw * factor:.2f}  {bad}"
        lines.append(cells)
    mean = sum(averages) / len(averages)
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {mean:.5f}", "#"]
    return "\n".join(lines) + "\n"
