"""The emulated cluster from the command line.

    python -m benchmarks.testbed check     # what this machine lacks
    python -m benchmarks.testbed clean     # remove what killed runs left
    python -m benchmarks.testbed links     # measure a small network against its spec
    python -m benchmarks.testbed run --short    # forecasts against runs: under ten minutes
    python -m benchmarks.testbed run --full -o docs/results    # all of it: under an hour

from the repository's root, as root.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.link_check import check_link
from benchmarks.testbed.preflight import preflight
from benchmarks.testbed.run import add_run, run
from benchmarks.testbed.spec import Host, Network
from benchmarks.testbed.sweep import sweep_leftovers


def clean() -> None:
    """Removes what killed runs left."""
    print(sweep_leftovers())


def links() -> None:
    """Prints rate and round trip of links at some rates and delays."""
    print(f"{'rate':>8} {'measured':>9} {'delay':>8} {'round trip':>11}")
    for delay_ms in (0.0, 0.25, 1.0, 3.0):
        for mbit in (100.0, 200.0, 400.0, 800.0):
            hosts = (Host("near", mbit), Host("far", mbit))
            with Bed(Network(hosts, delay_ms=delay_ms)) as bed:
                found = check_link(bed, "near", "far", mbytes=mbit / 8)
            print(
                f"{mbit:8.0f} {found.mbit / mbit:9.1%} {delay_ms:5.2f} ms "
                f"{found.rtt_s * 1e3:8.3f} ms"
            )


def main() -> int:
    """Runs one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.testbed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("check", "clean", "links"):
        commands.add_parser(name)
    add_run(commands.add_parser("run", help="probe, profile, forecast, run, compare"))
    arguments = parser.parse_args()
    if missing := preflight():
        print("\n".join(missing), file=sys.stderr)
        return 2
    if arguments.command == "check":
        print("This machine has what the emulated cluster needs.")
    elif arguments.command == "clean":
        clean()
    elif arguments.command == "links":
        links()
    else:
        return run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
