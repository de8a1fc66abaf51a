"""Workers without torch that wait for each other in each step, as an allreduce has them do.

python played_group.py STEPS STEPS_PER_SAVE
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

_LOOK_S = 0.002


def main() -> None:
    steps, every = int(sys.argv[1]), int(sys.argv[2])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    checkpoints = Path(os.environ["SRIFTY_CHECKPOINT"])
    checkpoints.mkdir(parents=True, exist_ok=True)
    gate = checkpoints.parent / f"gate-{os.environ['MASTER_PORT']}"
    gate.mkdir(exist_ok=True)
    step = max((int(entry.name[5:]) for entry in checkpoints.glob("step-*")), default=0)
    with Path(os.environ["SRIFTY_PROGRESS"], f"worker-{rank:05d}.jsonl").open("a") as log:

        def say(**line) -> None:
            log.write(json.dumps(line | {"at": time.time()}) + "\n")
            log.flush()

        say(start=step, workers=size)
        first, ended_s = step, time.perf_counter()
        while step < steps:
            # All must stop after the same step: the first worker says when, for the next step.
            if rank == 0 and Path(os.environ["SRIFTY_STOP"]).exists():
                (gate / f"stop-{step}").touch()
            pace = json.loads(Path(os.environ["SRIFTY_PACE"]).read_text())
            time.sleep(pace["step_s"])
            computed_s = time.perf_counter()
            _meet(gate, rank, size, step - first + 1)
            time.sleep(pace.get("exchange_s", 0.0))
            now_s = time.perf_counter()
            say(step=step, seconds=now_s - ended_s, loss=1.0, exchange_s=now_s - computed_s)
            ended_s = now_s
            stops = (gate / f"stop-{step}").exists()
            step += 1
            if rank == 0 and (step % every == 0 or stops or step == steps):
                (checkpoints / f"step-{step:012d}").mkdir(exist_ok=True)
            if stops:
                break


def _meet(gate: Path, rank: int, size: int, count: int) -> None:
    """Waits until all workers have come as often."""
    with (gate / f"rank-{rank}").open("ab") as mine:
        mine.write(b".")
    others = [gate / f"rank-{other}" for other in range(size)]
    while any(not other.exists() or other.stat().st_size < count for other in others):
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main()
