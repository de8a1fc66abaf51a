"""Do the VMs of a world exchange, each two of them, and how fast?

    torchrun ... -m srifty.training.pair_sweep

One process on each VM meets every other in turn, by a process group of the two, and exchanges a few
sizes. Each says in its log of steps how long that took. Who does not answer within seconds is named
and passed over from then on, so that one VM that hangs holds up nobody for long.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from srifty._torch import torch

_T = TypeVar("_T")

SIZES_BYTES = (4 << 10, 64 << 10, 512 << 10, 4 << 20)
# Seconds for two to find each other and to exchange everything.
_MEETING_S = 6.0
# Seconds in which the first worker is to be there: others may have loaded their libraries sooner.
_START_S = 30.0
# With more VMs each meets so many others, which still reaches all of them.
_MOST_ROUNDS = 7
_REPEATS = 3
_FAILED = 3
_PROGRESS = "SRIFTY_PROGRESS"


def rounds(world_size: int) -> list[list[tuple[int, int]]]:
    """Returns who meets whom: in each round everyone meets one other at most (circle method)."""
    ring: list[int | None] = list(range(world_size))
    if world_size % 2:
        ring.append(None)
    half = len(ring) // 2
    found: list[list[tuple[int, int]]] = []
    for _ in range(min(len(ring) - 1, _MOST_ROUNDS)):
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        met = [(a, b) for a, b in pairs if a is not None and b is not None]
        found.append([(min(pair), max(pair)) for pair in met])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def main() -> int:
    """Meets all others; returns 0 if all answered."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _limited(_join, rank, world_size)
    if store is None:
        _say((0, rank), None)  # the first worker keeps the store
        return _FAILED
    failed = 0
    for pair in _mine(rank, world_size):
        gone = f"gone-{pair[0] + pair[1] - rank}"
        is_gone = _limited(store.check, [gone])
        took = None if is_gone in (None, True) else _limited(_meet, store, pair, rank)
        _say(pair, took)
        if took is None:
            failed += 1
            _limited(store.set, gone, "1")
    if rank == 0:
        _wait_for_others(store, world_size)
    else:
        _limited(store.set, f"done-{rank}", "1")
    return _FAILED if failed else 0


def _mine(rank: int, world_size: int) -> Iterator[tuple[int, int]]:
    for each in rounds(world_size):
        yield from (pair for pair in each if rank in pair)


def _join(rank: int, world_size: int) -> Any:
    """Returns the store at which all meet; nobody waits for all to be there."""
    keeps = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return torch.distributed.TCPStore(
        *(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, keeps),
        timeout=timedelta(seconds=_START_S),
        wait_for_workers=False,
    )


def _meet(store: Any, pair: tuple[int, int], rank: int) -> dict[str, float]:
    """Returns the median seconds of an allreduce between the two, by size."""
    distributed: Any = torch.distributed
    own = distributed.PrefixStore(f"pair-{pair[0]}-{pair[1]}", store)
    limit = timedelta(seconds=_MEETING_S)
    place = pair.index(rank)
    is_cuda = torch.cuda.is_available()
    if is_cuda:
        torch.cuda.set_device(0)
    kind = distributed.ProcessGroupNCCL if is_cuda else distributed.ProcessGroupGloo
    group = kind(own, place, 2, limit)
    found: dict[str, float] = {}
    for size in SIZES_BYTES:
        data = torch.ones(size // 4, device="cuda" if is_cuda else "cpu")
        took_s: list[float] = []
        for _ in range(_REPEATS + 1):
            began_s = time.perf_counter()
            group.allreduce([data]).wait()
            if is_cuda:
                torch.cuda.synchronize()
            took_s.append(time.perf_counter() - began_s)
        found[str(size)] = sorted(took_s[1:])[_REPEATS // 2]
    return found


def _limited(task: Callable[..., _T], *arguments: Any) -> _T | None:
    """Returns what a task returns; None where it fails, or does not end in time."""
    found: list[_T] = []

    def work() -> None:
        try:
            found.append(task(*arguments))
        except Exception as error:  # noqa: BLE001 - whatever the library raises: no exchange
            sys.stderr.write(f"{type(error).__name__}: {error}\n")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_START_S if task is _join else 2 * _MEETING_S)
    return found[0] if found else None


def _say(pair: tuple[int, int], took: dict[str, float] | None) -> None:
    line = {"at": time.time(), "pair": list(pair), "took": took}
    path = Path(os.environ[_PROGRESS]) / f"worker-{int(os.environ['RANK']):05d}.jsonl"
    with path.open("ab", 0) as log:
        log.write(b"\n" + json.dumps(line).encode() + b"\n")


def _wait_for_others(store: Any, world_size: int) -> None:
    """Keeps the store until all others are done, or gone, or have had their time."""
    until_s = time.monotonic() + _MOST_ROUNDS * _MEETING_S
    left = list(range(1, world_size))
    while left and time.monotonic() < until_s:
        left = [
            other
            for other in left
            if not store.check([f"done-{other}"]) and not store.check([f"gone-{other}"])
        ]
        time.sleep(0.05)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread inside the library may never come back.
    os._exit(code)
