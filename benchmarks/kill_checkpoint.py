"""Savers of a checkpoint, killed at random moments: is there always one to go on with?

    python -m benchmarks.kill_checkpoint [--kills 50] [--megabytes 200] [--seed 0]

from the repository's root; needs torch. A process saves a state over and over, in the background
and overwriting the state meanwhile, and gets SIGKILL at a random moment of its second or third
save. After every round the newest whole checkpoint is looked for and put back: all its numbers must
be those of one step, which must be no earlier than the last one that was reported as saved.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from tests.training.kill_saves import kill_rounds


def main() -> None:
    """Prints what was found; raises `SystemExit` where a round could not be resumed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many rounds")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the state")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tally = kill_rounds(folder, arguments.kills, arguments.megabytes * 10**6, arguments.seed)
    print(
        f"{tally.kills} savers of {arguments.megabytes} MB were killed, {tally.torn} of them in "
        f"the middle of a save; after {tally.resumed} kills a whole state was put back, after "
        f"{tally.newest_said} the last one reported as saved or a newer one "
        f"({time.perf_counter() - began:.0f} s)."
    )
    if not tally.kills == tally.resumed == tally.newest_said:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
