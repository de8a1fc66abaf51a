"""Keeps what compiled solvers print off standard output, which belongs to the answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def solver_output_to_stderr() -> Generator[None]:
    """Sends to standard error what is written to standard output meanwhile.

    HiGHS, scipy's integer-program solver, prints a line of its own now and then, whatever it is
    told; it writes to the file descriptor, past Python's `sys.stdout`.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
