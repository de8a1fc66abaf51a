"""A worker without torch that trains as `srifty.training` does: logs, saves, stops, goes on.

python played_worker.py STEPS STEPS_PER_SAVE

It fails at once where its folder holds a file `fail`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    steps, every = int(sys.argv[1]), int(sys.argv[2])
    rank = int(os.environ["RANK"])
    checkpoints = Path(os.environ["SRIFTY_CHECKPOINT"])
    checkpoints.mkdir(parents=True, exist_ok=True)
    if (checkpoints.parent / "fail").exists():
        raise SystemExit(3)
    pace = os.environ.get("SRIFTY_PACE")
    step = newest(checkpoints)
    with Path(os.environ["SRIFTY_PROGRESS"], f"worker-{rank:05d}.jsonl").open("a") as log:

        def say(**line) -> None:
            log.write(json.dumps(line | {"at": time.time()}) + "\n")
            log.flush()

        say(start=step, workers=int(os.environ["WORLD_SIZE"]))
        while step < steps:
            if Path(os.environ["SRIFTY_STOP"]).exists():
                break
            time.sleep(json.loads(Path(pace).read_text())["step_s"] if pace else 0.02)
            say(step=step, seconds=0.02, loss=1.0)
            step += 1
            if rank == 0 and step % every == 0:
                save(checkpoints, step)
    if rank == 0:
        save(checkpoints, step)


def save(folder: Path, step: int) -> None:
    (folder / f"step-{step:012d}").mkdir(exist_ok=True)


def newest(folder: Path) -> int:
    return max((int(entry.name[5:]) for entry in folder.glob("step-*")), default=0)


if __name__ == "__main__":
    main()
