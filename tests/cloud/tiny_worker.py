"""A worker without torch: makes steps, logs them as a training script does, stops when asked.

python tiny_worker.py STEPS SECONDS_PER_STEP
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def step_s() -> float:
    """Seconds of a step: what the played pace says, else the argument."""
    pace = os.environ.get("SRIFTY_PACE")
    return json.loads(Path(pace).read_text())["step_s"] if pace else float(sys.argv[2])


def main() -> None:
    rank = int(os.environ["RANK"])
    folder = Path(os.environ["SRIFTY_PROGRESS"])
    share = os.environ["SRIFTY_SHARES"].split(",")[rank]
    sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']} takes {share}\n")
    with (folder / f"worker-{rank:05d}.jsonl").open("a", buffering=1) as log:
        for step in range(int(sys.argv[1])):
            if Path(os.environ["SRIFTY_STOP"]).exists():
                sys.stdout.write("saved\n")
                break
            time.sleep(step_s())
            log.write(json.dumps({"step": step, "at": time.time(), "seconds": step_s()}) + "\n")


if __name__ == "__main__":
    main()
