"""A sweep without torch: says of each two workers what its argument has them say.

python played_sweep.py HANGS SECONDS

Where HANGS is the number of a worker, that one hangs the first time, and the others say so.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    hangs, seconds = int(sys.argv[1]), float(sys.argv[2])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    mark = Path(os.environ["SRIFTY_PROGRESS"]).parent / f"hung-{os.environ['MASTER_PORT']}"
    earlier = [path for path in mark.parent.glob("hung-*") if path != mark]
    if hangs >= 0 and not earlier:
        mark.touch()
        if rank == hangs:
            time.sleep(600)
    else:
        hangs = -1
    with Path(os.environ["SRIFTY_PROGRESS"], f"worker-{rank:05d}.jsonl").open("a") as log:
        for pair in itertools.combinations(range(size), 2):
            if rank in pair:
                took = None if hangs in pair else {"4194304": seconds}
                log.write(json.dumps({"at": time.time(), "pair": pair, "took": took}) + "\n")
    return 0 if hangs < 0 else 3


if __name__ == "__main__":
    sys.exit(main())
