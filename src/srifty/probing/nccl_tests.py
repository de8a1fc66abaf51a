"""The command lines by which nccl-tests would measure the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from srifty.probing.grid import Grid

_ITERATIONS = 20


def nccl_tests_commands(grid: Grid) -> tuple[str, ...]:
    """Returns lines for a shell: comments, two variables to set, the commands.

    Args:
        grid: what to measure; transfers at once other than 1 have no counterpart there.
    """
    sizes = sorted({cell.size_bytes for cell in grid.cells})
    common = f"-n {_ITERATIONS} -w {grid.warmup} -c 1 -d {grid.element.log_name}"
    ranges = [f"-b {first} -e {last} -f {factor}" for first, last, factor in _ranges(sizes)]
    lines = ["# Set these two. hosts.txt names one VM per line.", "VMS=2", "GPUS=8"]
    lines += ["", "# On one VM:"]
    lines += [f"./build/all_reduce_perf {part} -g $GPUS {common}" for part in ranges]
    lines += ["", "# On several VMs, one process per GPU (build with MPI=1):"]
    lines += [
        "mpirun -np $((VMS * GPUS)) --hostfile hosts.txt --map-by ppr:$GPUS:node "
        f"./build/all_reduce_perf {part} -g 1 {common}"
        for part in ranges
    ]
    lines += [
        "",
        f"# Run it {grid.repeats} times, each into a log of its own: repeats show the noise.",
    ]
    if any(cell.concurrent > 1 for cell in grid.cells):
        lines.append("# nccl-tests runs one transfer at a time; --concurrent has no counterpart.")
    return tuple(lines)


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns (first, last, factor): one range if the sizes are geometric, else one per size."""
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    if all(after == before * factor for before, after in pairwise(sizes)):
        return [(sizes[0], sizes[-1], factor)]
    return [(size, size, 2) for size in sizes]
