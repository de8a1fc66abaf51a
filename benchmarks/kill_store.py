"""Writers of one store of samples, killed at random moments: is anything lost or doubled?

    python -m benchmarks.kill_store [--kills 50] [--seed 0]

from the repository's root. A process fills a store, every second time beside another one, and gets
SIGKILL at a random moment from its first write on (making the store included, on every fifth
round). After every round the store must open, hold every file that a writer had said was stored,
whole, and nothing twice, and pass SQLite's own check.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.allreduce.store_writers import ROWS, kill_rounds


def main() -> None:
    """Prints what was found; raises `AssertionError` where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many rounds")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tally = kill_rounds(Path(folder) / "srifty.db", arguments.kills, arguments.seed)
    print(
        f"{tally.kills} of {arguments.kills} writers were killed at work, at least {tally.torn} of "
        f"them in the middle of a write; {tally.stored} files of "
        f"{ROWS} samples were reported as stored, all are there; {tally.unsaid} more were stored "
        f"and not reported; none in part, none twice ({time.perf_counter() - began:.0f} s)."
    )


if __name__ == "__main__":
    main()
