"""A worker without torch whose steps are as all-or-nothing as a gradient's exchange.

python chaos_worker.py STEPS STEPS_PER_SAVE DEALT

Each step all workers meet, as in an allreduce: one that is gone ends all others, one that hangs
hangs them. What each worker was dealt in each step is appended to a file of its own in the folder
DEALT. Worker 0 saves; all go on from the newest save.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path


class Meeting:
    """Where all workers meet once in a step."""

    def __init__(self, rank: int, world_size: int) -> None:
        port = int(os.environ["MASTER_PORT"])
        self._others: list[socket.socket] = []
        if rank == 0:
            with socket.create_server(("127.0.0.1", port)) as server:
                server.settimeout(60)
                self._others = [server.accept()[0] for _ in range(world_size - 1)]
        else:
            until_s = time.monotonic() + 60
            while not self._others:
                try:
                    self._others = [socket.create_connection(("127.0.0.1", port), 60)]
                except OSError:
                    if time.monotonic() > until_s:
                        raise
                    time.sleep(0.05)
        for other in self._others:
            other.settimeout(None)
        self._is_first = rank == 0

    def meet(self, word: bytes) -> bytes:
        """Returns the largest of all workers' letters, once all have said theirs."""
        if self._is_first:
            said = max([word, *(self._hear(other) for other in self._others)])
            for other in self._others:
                other.sendall(said)
            return said
        for other in self._others:
            other.sendall(word)
        return max([word, *(self._hear(other) for other in self._others)]) if self._others else word

    def _hear(self, other: socket.socket) -> bytes:
        heard = other.recv(1)
        if not heard:
            sys.exit("another worker is gone")
        return heard


def main() -> None:
    """Trains, or plays it."""
    steps, every, dealt = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    shares = [int(share.split("/")[0]) for share in os.environ["SRIFTY_SHARES"].split(",")]
    first, count = sum(shares[:rank]), shares[rank]
    checkpoints = Path(os.environ["SRIFTY_CHECKPOINT"])
    checkpoints.mkdir(parents=True, exist_ok=True)
    dealt.mkdir(parents=True, exist_ok=True)
    pace = Path(os.environ["SRIFTY_PACE"])
    meeting = Meeting(rank, world_size)
    step = max((int(entry.name[5:]) for entry in checkpoints.glob("step-*")), default=0)
    step = _agreed(meeting, step)
    log = Path(os.environ["SRIFTY_PROGRESS"], f"worker-{rank:05d}.jsonl")
    own = dealt / f"{os.getpid()}-{time.time_ns()}"

    def say(path: Path, **line) -> None:
        with path.open("ab") as file:
            file.write(b"\n" + json.dumps(line | {"at": time.time()}).encode() + b"\n")

    say(log, start=step, workers=world_size)
    while step < steps:
        began_s = time.perf_counter()
        time.sleep(json.loads(pace.read_text(encoding="utf-8"))["step_s"])
        stop = Path(os.environ["SRIFTY_STOP"]).exists()
        stop = meeting.meet(b"b" if stop else b"a") == b"b"
        say(own, step=step, first=first, count=count)
        say(log, step=step, seconds=time.perf_counter() - began_s)
        step += 1
        # Nobody goes on before all have noted the step that is saved.
        meeting.meet(b"a")
        if rank == 0 and (step % every == 0 or stop or step == steps):
            _save(checkpoints, step)
        if stop:
            break


def _agreed(meeting: Meeting, step: int) -> int:
    """Returns worker 0's step on all workers: a save may come between two looks."""
    digits = 12
    found = 0
    rank = int(os.environ["RANK"])
    for place in range(digits):
        own = f"{step:0{digits}d}"[place] if rank == 0 else "0"
        found = 10 * found + int(meeting.meet(own.encode()))
    return found


def _save(folder: Path, step: int) -> None:
    entry = folder / f"step-{step:012d}"
    entry.mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
