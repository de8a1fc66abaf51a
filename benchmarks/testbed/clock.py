"""Waiting until a moment of the monotonic clock, to some tens of microseconds."""

from __future__ import annotations

import ctypes
import errno
import time

_MONOTONIC = 1
_ABSOLUTE = 1
_PR_SET_TIMERSLACK = 29
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def sharpen() -> None:
    """Lets the kernel wake this thread, and those it starts from now on, without delay."""
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def wait_until(moment_s: float) -> None:
    """Sleeps until `time.perf_counter()` (the monotonic clock) shows a moment; other threads run.

    Raises:
        OSError: the kernel refuses.
    """
    if moment_s <= time.perf_counter():
        return
    seconds = int(moment_s)
    until = _Timespec(seconds, int((moment_s - seconds) * 1e9))
    while True:
        refused = _libc.clock_nanosleep(_MONOTONIC, _ABSOLUTE, ctypes.byref(until), None)
        if refused == 0:
            return
        if refused != errno.EINTR:
            raise OSError(refused, "clock_nanosleep")
