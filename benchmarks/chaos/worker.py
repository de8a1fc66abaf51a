"""A worker without torch whose steps are as all-or-nothing as a gradient's exchange.

python worker.py STEPS STEPS_PER_SAVE DEALT LAST_STEPS

Each step all workers meet, as in an allreduce: one that is gone ends all others, one that hangs
hangs them. What each worker was dealt in each step is appended to a file of its own in the folder
DEALT. Worker 0 saves; all go on from the newest save. The last steps are made only once there is
a file `go` beside DEALT: so that a run does not end before all was done to it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

import toy

# What one says to all: whether it was asked to stop, and a number. The answer is whether any was,
# and the sum of the numbers.
_WORD = struct.Struct("!?Q")


class Meeting:
    """Where all workers meet once in a step."""

    def __init__(self, rank: int, world_size: int) -> None:
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._others: list[socket.socket] = []
        if rank == 0:
            with socket.create_server(place) as server:
                server.settimeout(60)
                self._others = [server.accept()[0] for _ in range(world_size - 1)]
        else:
            until_s = time.monotonic() + 60
            while not self._others:
                try:
                    self._others = [socket.create_connection(place, 5)]
                except OSError:
                    if time.monotonic() > until_s:
                        raise
                    time.sleep(0.05)
        for other in self._others:
            other.settimeout(None)
        self._is_first = rank == 0

    def meet(self, number: int = 0, *, stop: bool = False) -> tuple[int, bool]:
        """Returns the sum of all workers' numbers, and whether one stops, once all are here."""
        if self._is_first:
            said = [(stop, number), *(self._hear(other) for other in self._others)]
            stop = any(stops for stops, _ in said)
            number = toy.total(each for _, each in said)
            for other in self._others:
                other.sendall(_WORD.pack(stop, number))
            return number, stop
        (other,) = self._others
        other.sendall(_WORD.pack(stop, number))
        stop, number = self._hear(other)
        return number, stop

    def _hear(self, other: socket.socket) -> tuple[bool, int]:
        heard = b""
        while len(heard) < _WORD.size:
            part = other.recv(_WORD.size - len(heard))
            if not part:
                sys.exit("another worker is gone")
            heard += part
        stop, number = _WORD.unpack(heard)
        return stop, number


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
    # A save may come between two looks: what worker 0 sees counts.
    step, parameters = newest(checkpoints) if rank == 0 else (0, 0)
    step, _ = meeting.meet(step)
    parameters, _ = meeting.meet(parameters)
    log = Path(os.environ["SRIFTY_PROGRESS"], f"worker-{rank:05d}.jsonl")
    own = dealt / f"{os.getpid()}-{time.time_ns()}"

    def say(path: Path, **line) -> None:
        with path.open("ab") as file:
            file.write(b"\n" + json.dumps(line | {"at": time.time()}).encode() + b"\n")

    stop_file, go = Path(os.environ["SRIFTY_STOP"]), dealt.with_name("go")
    last = steps - int(sys.argv[4])
    say(log, start=step, workers=world_size)
    while step < steps:
        began_s = time.perf_counter()
        time.sleep(json.loads(pace.read_text(encoding="utf-8"))["step_s"])
        while step == last and not go.exists() and not stop_file.exists():
            time.sleep(0.02)
        mine = toy.samples(step, first, count)
        gradients, stop = meeting.meet(toy.gradient(parameters, mine), stop=stop_file.exists())
        parameters = toy.after(parameters, gradients)
        say(own, step=step, first=mine.start, count=count)
        say(log, step=step, seconds=time.perf_counter() - began_s)
        step += 1
        # Nobody goes on before all have noted the step that is saved.
        meeting.meet()
        if rank == 0 and (step % every == 0 or stop or step == steps):
            save(checkpoints, step, parameters)
        if stop:
            break


def newest(folder: Path) -> tuple[int, int]:
    """Returns the newest saved step and its parameters; the first ones where nothing is saved."""
    entries = sorted(folder.glob("step-*"))
    if not entries:
        return 0, toy.FIRST
    return int(entries[-1].name[5:]), int((entries[-1] / "parameters").read_text())


def save(folder: Path, step: int, parameters: int) -> None:
    """Saves a step, all of it or nothing."""
    entry = folder / f"step-{step:012d}"
    if not entry.exists():
        beside = folder / f".{entry.name}.{os.getpid()}"
        beside.mkdir()
        (beside / "parameters").write_text(str(parameters))
        beside.replace(entry)


if __name__ == "__main__":
    main()
