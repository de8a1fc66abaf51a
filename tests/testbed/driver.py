"""A process that builds a bed, leaves daemons in it, says so, and waits to be killed.

python -m tests.testbed.driver DELAY_MS
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.spec import Host, Network

# A child of a child, in a session of its own, as far from its ancestors as a process gets.
DAEMON = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"


def main(delay_ms: float) -> None:
    """Writes the bed's name and a daemon's number, then waits."""
    network = Network((Host("a", 100), Host("b", 100)), delay_ms=delay_ms)
    with Bed(network) as bed:
        left = bed.popen("a", [sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True)
        name = bed.namespace("a").rpartition("-")[0]
        sys.stdout.write(f"{name} {left.stdout.readline().strip()}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(float(sys.argv[1]))
