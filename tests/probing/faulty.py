"""`srifty` with one fault on one rank: `python -m tests.probing.faulty FAULT RANK STEP ARGUMENTS`.

Steps count the rank's timed operations from 1, those of the first trial included. Faults: `kill`
and `interrupt` send the process SIGKILL and SIGINT, `spoil` adds 1 to element 0 of every sum from
that step on (0: from the start).
"""

from __future__ import annotations

import os
import signal
import sys

from srifty.cli.main import main
from srifty.probing.timing import Bench

fault, rank, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
right_operation_s, right_run = Bench.operation_s, Bench._run
steps = 0


def operation_s(bench, cell, inner):
    global steps
    steps += 1
    if steps == step:
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[fault])
    return right_operation_s(bench, cell, inner)


def run(bench, messages):
    right_run(bench, messages)
    if steps >= step:
        messages[-1][0] += 1


if os.environ["RANK"] == rank:
    if fault == "spoil":
        Bench._run = run
    else:
        Bench.operation_s = operation_s
sys.argv[1:] = sys.argv[4:]
main()
