"""Locks that tell whether a process lives, whoever it was and however it died."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def take_lock(path: Path) -> int | None:
    """Returns a descriptor that holds a file's lock until this process ends; None if it is held.

    The kernel gives the lock up when the process dies, however it dies; process ids are used again,
    locks are not. Closing the descriptor gives it up too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def holder(path: Path) -> int | None:
    """Returns the id of the process that holds a file's lock, 0 if it has not said; None: none."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0)
        return int(text) if text else 0
    finally:
        os.close(descriptor)
    return None
